"""What may stand in a certificate of version 2: fields of objects, parameters, columns, codes and their numbers."""

from fractions import Fraction

RULES = "impossible possible implies order at_most nulls_together determines"
FIELDS: dict[str, tuple[str, str]] = {  # of each object: the fields that it must have, and those that it may have
    "": (
        "discreet_certificate library created mechanism domain records size relation unit public_inputs guarantee "
        "randomness released",
        "identity ledger",
    ),
    "library": ("name version", ""),
    "mechanism": ("name parameters", ""),
    "domain": ("columns", f"metric_weights totals difference outcome tables units {RULES}"),
    "relation": ("name group", ""),
    "unit": ("column max_records", ""),
    "public_inputs": ("", "reference points api.table api.prompts"),
    "guarantee": ("epsilon delta pure_epsilon kind theorem exact assumptions caveats profile", "epsilon_each attack"),
    "released": ("columns tables outcome share_from_data", "pairs_measured merged_cells partitions partition_by"),
    "released.tables": ("file rows sha256", ""),
    "ledger": ("dataset entry head", ""),
}
PARAMETERS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("pitman-yor", "dirichlet-process"), ("strength discount sampler", "")),
    "dirichlet-multinomial": ("prior", ""),
    **dict.fromkeys(("smoothed-histogram", "reveal-or-obscure", "subsampled-randomised-response"), ("mixing", "")),
    "data-specific-reveal-or-obscure": ("draw_epsilon schedule", ""),
    "perturbed-histogram": ("scale noise sampling projection", ""),
    "hierarchical-histogram": ("scale noise sampling levels", ""),
    "signed-measure": ("scale noise sampling", "points"),
    "gaussian-smoothed-histogram": ("scale sampling mixing", ""),
    "laplace-projection-sampler": ("scale sampling", ""),
    "exponential-histogram": ("pure_epsilon loss", ""),
    "stability-histogram": ("scale threshold sampling", ""),
    "stabilised-pitman-yor": ("scale threshold strength discount", ""),
    "urn-histogram": ("strength discount", ""),
    "marginals": ("scale units sampling", "workload given threshold label_units score_units tables"),
    "private-evolution": (
        "scale steps population noise threshold variant multiplicity sampling api",
        "nearest unit_votes by_label label_shares lookahead",
    ),
}
TABLE = ("unit max_records columns", "slots order_by")
BOUNDED = "type lower upper"
ANY = "nulls base null_values strip out_of_bounds"
NUMBER = f"{ANY} cells atoms coin decimal_mark thousands prefix suffix censored"
CLOCK = f"{ANY} cells atoms coin format"
COLUMNS: dict[str, tuple[str, str]] = {
    "numeric": (BOUNDED, f"{NUMBER} spacing grid step within dtype"),
    "integer": (BOUNDED, f"{NUMBER} spacing dtype"),
    "boolean": ("type", f"{ANY} true false"),
    "category": ("type categories", f"{ANY} ordered dtype"),
    "open_labels": ("type", f"{ANY} prefix"),
    "date": (BOUNDED, CLOCK),
    "datetime": (f"{BOUNDED} step", f"{CLOCK} time_zone"),
    "time": ("type step", f"{CLOCK} lower upper"),
    "duration": (f"{BOUNDED} step", f"{ANY} cells atoms coin"),
    "decimal": (f"{BOUNDED} digits", NUMBER),
}
CHOICES = {
    "noise": {"laplace", "gaussian"},
    "sampling": {"stratified", "iid"},
    "projection": {"w1", "l1", "clip", "simplex", "bounded-lipschitz"},
    "sampler": {"ancestor", "mixing"},
    "variant": {"projection", "theoretical", "practical"},
    "loss": {"l1", "l2", "hellinger"},
    "spacing": {"log"},
    "nulls": {"category"},
}
RANDOMNESS = {"operating-system", "operating-system-and-jax", "seeded", "seeded-cut"}
PROFILE = [Fraction(1, 100), Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), *map(Fraction, (1, 2, 4, 8))]

_OF = (  # mechanisms, what (with points or a threshold) is assumed to be chosen without the data, and their caveats
    ("pitman-yor dirichlet-process", "base-measure strength discount", "verbatim-share"),
    ("dirichlet-multinomial", "cells prior", "prior-share"),
    ("smoothed-histogram reveal-or-obscure", "cells mixing-probability", "uniform-share"),
    ("subsampled-randomised-response", "cells mixing-probability", "uniform-share"),
    ("data-specific-reveal-or-obscure", "cells schedule", "uniform-at-most"),
    ("exponential-histogram", "cells loss", "share-elsewhere"),
    ("urn-histogram", "strength discount", "all-verbatim delta-constant random-number"),
    ("stability-histogram stabilised-pitman-yor", "scale threshold", "rare-labels single-label free-draws"),
    ("perturbed-histogram gaussian-smoothed-histogram laplace-projection-sampler", "cells noise", "free-draws"),
    ("hierarchical-histogram signed-measure", "cells noise", "free-draws"),
    ("private-evolution", "api number-of-steps population noise", "api-without-data free-draws"),
    ("marginals", "columns their-cells workload units noise", "free-draws"),
)
CHOSEN = {name: chosen.split() for names, chosen, _ in _OF for name in names.split()}
BELONGS = {name: caveats.split() for names, _, caveats in _OF for name in names.split()}
CAVEATS = {  # the fields of each, beside its code
    "all-verbatim": "at_most expected",
    "api-alone": "api",
    "equal-votes": "voters",
    "delta-floor": "delta",
    "delta-large": "records",
    "epsilon-large": "limit",
    "free-draws": "noisy",
    "place-around-points": "points",
    "place-in-leaf": "cells",
    "published-shares": "column source sample",
    "random-number": "size",
    "rare-labels": "threshold open",
    "single-label": "probability",
    **dict.fromkeys(("prior-share", "share-elsewhere", "uniform-at-most", "uniform-share"), "share"),
    "verbatim-share": "at_most expected probability size",
    **dict.fromkeys(("api-without-data", "conditional-independence", "delta-constant", "delta-is-bound"), ""),
    **dict.fromkeys(("no-step", "tables-together", "unused-slots"), ""),
}
