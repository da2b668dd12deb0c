"""The lab's AWS: moto's server on loopback, extended with what it lacks, and as unforgiving as AWS.

server.py       one WSGI application: call log, faults, one request at a time, then moto
actions.py      how a call is added (`action`), a rule (`before`) or a consequence (`after`)
services.py     the modules that hold calls and rules
world.py        state, the lock, timers and worker threads
console.py      /_lab/…: health, calls, resources (sweep.py), faults, capacity, quotas, token reviews
ec2/ eks/ fsx/ ecr/ and a file for each smaller service

To add a call: write a function with `@action("service", "Name")` in the service's folder (see
ec2/placement_groups.py), name a new file in services.py, and a new type in sweep.py.
"""
