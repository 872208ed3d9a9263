# The CIR pipeline: games -> trajectories -> forks -> outcomes -> router -> evaluation -> report.
#   snakemake --profile profiles/local --configfile config/demo.yaml
from snakemake.utils import min_version

min_version("9.0")


include: "rules/common.smk"
include: "rules/games.smk"
include: "rules/trajectories.smk"
include: "rules/forks.smk"
include: "rules/outcomes.smk"
include: "rules/router.smk"
include: "rules/evaluation.smk"
include: "rules/report.smk"


rule all:
    default_target: True
    input:
        f"{RESULTS}/report/index.html",
        # An agent behind a server may answer one prefix in two ways; its live check is asked for by name.
        [rules.live.output.live, rules.live.output.record] if STUDY.agent.kind == "scripted" else [],
        # Asked for by name: a result without its record, such as one of an earlier version, is made again.
        [rule.output.record for rule in (rules.games, rules.draw, rules.translations, rules.settle, rules.pairs)],
        [
            rule.output.record
            for rule in (rules.effects, rules.features, rules.fit, rules.evaluate, rules.study, rules.report)
        ],
        expand(rules.factual.output.record, cohort=COHORTS),
        expand(rules.trunk.output.record, cohort=COHORTS, condition=STUDY.protocol.conditions),
        expand(
            rules.fork.output.record,
            cohort=COHORTS,
            condition=STUDY.protocol.conditions,
            delay=STUDY.protocol.delays,
            operator=STUDY.protocol.operators,
        ),
