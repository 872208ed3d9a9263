"""
Stage 3, forks: from every trunk at k + d, one job per (cohort, condition, delay, operator), looping over the tasks.

REQUIRED INPUTS
    results/<study>/trajectories/cohort=C/condition=E/trunk.parquet, games/translations.parquet
OUTPUTS
    results/<study>/forks/cohort=C/condition=E/delay=D/operator=M/part.parquet
"""


rule fork:
    input:
        trunk=rules.trunk.output.trunk,
        translations=rules.translations.output.translations,
    output:
        part=f"{RESULTS}/forks/cohort={{cohort}}/condition={{condition}}/delay={{delay}}/operator={{operator}}/part.parquet",
        record=f"{RESULTS}/provenance/fork/{{cohort}}/{{condition}}/{{delay}}/{{operator}}.json",
    log:
        f"{RESULTS}/logs/fork/{{cohort}}/{{condition}}/{{delay}}/{{operator}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fork/{{cohort}}/{{condition}}/{{delay}}/{{operator}}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    params:
        settings=lambda wildcards: settings(STUDY, "fork", wildcards.condition, wildcards.operator),
        code=code_digest("pipeline.forks.command:fork", OTHER_AGENTS),
    shell:
        "cir --record {output.record:q}"
        " fork --delay {wildcards.delay} --operator {wildcards.operator} --trunk {input.trunk:q}"
        " --translations {input.translations:q} --settings {params.settings:q} --threads {threads}"
        " --out {output.part:q} > {log} 2>&1"
