"""FSx for Lustre: file systems backed by folders, and their data repository associations."""
