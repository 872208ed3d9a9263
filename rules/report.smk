"""
Stage 7, report: the study's page, its figures as files, and the summary that a terminal shows.

REQUIRED INPUTS
    everything above, and the study's config
OUTPUTS
    results/<study>/report/index.html    one self-contained page, with every branch beside its trunk
    results/<study>/report/figures/      its figures as SVG, their data as CSV
    results/<study>/report/summary.txt   the same in a terminal's width
"""


rule study:
    output:
        study=f"{RESULTS}/study.json",
        record=f"{RESULTS}/provenance/study.json",
    log:
        f"{RESULTS}/logs/study.log",
    conda:
        "../envs/analysis.yaml"
    params:
        study=STUDY.model_dump_json(by_alias=True, exclude={"store"}),
    shell:
        "cir --record {output.record:q}" " config record --study {params.study:q} --out {output.study:q} > {log} 2>&1"


rule report:
    input:
        study=rules.study.output.study,
        games=rules.games.output.games,
        cohorts=rules.settle.output.cohorts,
        pairs=rules.pairs.output.pairs,
        exclusions=rules.pairs.output.exclusions,
        effects=rules.effects.output.effects,
        router=rules.fit.output.router,
        evaluation=rules.evaluate.output.summary,
        decisions=rules.features.output.decisions,
        oof=rules.fit.output.oof,
        trunks=rules.pairs.input.trunks,
        forks=rules.pairs.input.forks,
    output:
        page=report(
            f"{RESULTS}/report/index.html", caption="../report/page.rst", category="Study", labels={"what": "the page"}
        ),
        figures=report(
            directory(f"{RESULTS}/report/figures"),
            patterns=["{name}.svg"],
            caption="../report/figure.rst",
            category="Study",
            subcategory="Figures",
            labels={"figure": "{name}"},
        ),
        summary=f"{RESULTS}/report/summary.txt",
        record=f"{RESULTS}/provenance/report.json",
    log:
        f"{RESULTS}/logs/report.log",
    benchmark:
        f"{RESULTS}/benchmarks/report.tsv"
    conda:
        "../envs/analysis.yaml"
    params:
        trajectories=lambda wildcards, input: Path(input.trunks[0]).parents[2],
        forks=lambda wildcards, input: Path(input.forks[0]).parents[4],
        code=code_digest("pipeline.report.command:report"),
    shell:
        "cir --record {output.record:q}"
        " report --study {input.study:q} --games {input.games:q} --cohorts {input.cohorts:q} --pairs {input.pairs:q}"
        " --exclusions {input.exclusions:q} --effects {input.effects:q} --router {input.router:q}"
        " --evaluation {input.evaluation:q} --decisions {input.decisions:q} --oof {input.oof:q}"
        " --trajectories {params.trajectories:q} --forks {params.forks:q} --out {output.page:q}"
        " --summary {output.summary:q} > {log} 2>&1"
