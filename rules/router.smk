"""
Stage 5, router: features of every candidate moment from the prefix only, fit on out-of-fold predictions.

REQUIRED INPUTS
    results/<study>/outcomes/pairs.parquet, games/cohorts.parquet, all trunks
OUTPUTS
    results/<study>/router/decisions.parquet   one row a (task, condition, candidate delay)
    results/<study>/router/oof.parquet         out-of-fold predictions of the fit cohort
    results/<study>/router/router.json         the fitted router, frozen from here on
"""


rule features:
    input:
        pairs=rules.pairs.output.pairs,
        trunks=expand(rules.trunk.output.trunk, cohort=[FIT, EVALUATE], condition=STUDY.protocol.conditions),
    output:
        decisions=f"{RESULTS}/router/decisions.parquet",
        record=f"{RESULTS}/provenance/features.json",
    log:
        f"{RESULTS}/logs/features.log",
    benchmark:
        f"{RESULTS}/benchmarks/features.tsv"
    conda:
        "../envs/analysis.yaml"
    params:
        trajectories=lambda wildcards, input: Path(input.trunks[0]).parents[2],
        cohorts=f"{FIT},{EVALUATE}",
        settings=settings(STUDY, "features"),
        code=code_digest("pipeline.router.command:features"),
    shell:
        "cir --record {output.record:q}"
        " features --pairs {input.pairs:q} --trajectories {params.trajectories:q} --cohort {params.cohorts}"
        " --settings {params.settings:q} --out {output.decisions:q} > {log} 2>&1"


rule fit:
    input:
        decisions=rules.features.output.decisions,
    output:
        router=f"{RESULTS}/router/router.json",
        oof=f"{RESULTS}/router/oof.parquet",
        record=f"{RESULTS}/provenance/fit.json",
    log:
        f"{RESULTS}/logs/fit.log",
    benchmark:
        f"{RESULTS}/benchmarks/fit.tsv"
    conda:
        "../envs/analysis.yaml"
    params:
        cohort=FIT,
        settings=settings(STUDY, "fit"),
        code=code_digest("pipeline.router.command:fit"),
    shell:
        "cir --record {output.record:q}"
        " fit {input.decisions:q} --cohort {params.cohort} --settings {params.settings:q} --out {output.router:q}"
        " --oof {output.oof:q} > {log} 2>&1"
