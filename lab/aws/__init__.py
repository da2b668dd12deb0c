"""The lab's AWS: moto's server on loopback, extended with what it lacks, and as unforgiving as AWS.

server.py         one WSGI application: call log, faults, one request at a time, answered here or by moto
api_request.py    what an HTTP request asks, read once by botocore's model; serialization.py writes the answer
actions.py        how a call is added (`action`), a check (`before`) or a consequence (`after`)
services.py       the modules that hold calls and checks
world.py          state, the lock, timers and worker threads
console.py        /_lab/…: health, calls (call_log.py), resources (sweep.py), faults, capacity, quotas, token reviews
ec2/ eks/ fsx/ ecr/ and a file for each smaller service

What neither a function here nor moto answers is an error, NotImplemented, that names the operation.

To add a call: write a function with `@action("service", "Name")` in the service's folder (see
ec2/placement_groups.py), name a new file in services.py, and a new type in sweep.py.
"""
