"""What watches the jobs: Prometheus, scraping the trainers."""

from workloads.observability.prometheus import Prometheus

__all__ = ["Prometheus"]
