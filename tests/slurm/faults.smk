"""Jobs that go wrong in the ways a cluster makes them: too little memory, too little time, cancelled, interrupted."""


rule all:
    input:
        "hungry.txt",
        "slow.txt",


rule hungry:
    output:
        "hungry.txt",
    shell:
        # 900 MB for three seconds: accounting samples memory once a second.
        "echo x >> hungry.attempts; python -c 'import time; x = b\"x\" * 900_000_000; time.sleep(3)' && echo done > {output}"


rule slow:
    output:
        "slow.txt",
    shell:
        # The first try never ends by itself; what a later one needs is there.
        "echo x >> slow.attempts; [ $(wc -l < slow.attempts) -gt 1 ] || sleep 600; echo done > {output}"


rule waiting:
    output:
        "waiting/{name}.txt",
    shell:
        "mkdir -p started; echo x >> started/{wildcards.name}; while [ ! -e go ]; do sleep 0.2; done; echo done > {output}"
