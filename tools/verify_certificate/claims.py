"""What a certificate claims, compared with what follows from its facts."""

import decimal
import json
import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
from mpmath import mpf
from verify_certificate.answers import AGREES, CANNOT, LESS, WRONG, Check, Promise, StoppedError
from verify_certificate.arithmetic import exact, number
from verify_certificate.facts import Facts
from verify_certificate.form import form
from verify_certificate.losses import exponential, posterior
from verify_certificate.mixtures import data_specific, mixture, randomised_response
from verify_certificate.noise import counts, evolution, marginals, stability
from verify_certificate.released import files
from verify_certificate.urns import dirichlet_multinomial, pitman_yor, urn_histogram

MECHANISMS: dict[str, tuple[Callable[[Facts], Promise], str]] = {
    name: (made, theorems)
    for made, theorems, names in (
        (pitman_yor, "T1 T2 T21", "pitman-yor dirichlet-process"),
        (dirichlet_multinomial, "T4", "dirichlet-multinomial"),
        (mixture, "T5", "smoothed-histogram reveal-or-obscure"),
        (counts, "T6", "perturbed-histogram gaussian-smoothed-histogram laplace-projection-sampler"),
        (data_specific, "T7", "data-specific-reveal-or-obscure"),
        (stability, "T8", "stability-histogram stabilised-pitman-yor"),
        (counts, "T9", "hierarchical-histogram"),
        (exponential, "T10", "exponential-histogram"),
        (urn_histogram, "T12", "urn-histogram"),
        (randomised_response, "T13", "subsampled-randomised-response"),
        (counts, "T15", "signed-measure"),
        (evolution, "T16", "private-evolution"),
        (posterior, "T18", "censored-posterior"),
        (posterior, "T19", "pseudo-posterior"),
        (marginals, "T20", "marginals"),
    )
    for name in names.split()
}


def promise_of(document: dict[str, Any]) -> Promise:
    """Return what the theorems say of the mechanism in a certificate."""
    facts = Facts(document)
    if facts.mechanism not in MECHANISMS or (facts.relation == "replacement" and facts.n == 0):
        raise StoppedError(CANNOT, f"{facts.mechanism!r} is not known, or there are no records")
    made = MECHANISMS[facts.mechanism][0](facts)
    return made._replace(delta=cache(made.delta))


def _claim(what: str, epsilon: Fraction, stated: Fraction, promise: Promise, *, attained: bool) -> Check:
    """Compare a stated delta with the theorem's."""
    true, claimed = promise.delta(epsilon), number(stated)
    said = f"delta({float(epsilon):g}) is {mpmath.nstr(true, 12)}, stated {mpmath.nstr(claimed, 12)}"
    if claimed < true:
        return Check(what, CANNOT if claimed >= true * (1 - promise.rough) else LESS, said)
    if attained and claimed > mpf("1.01") * true and not 0 < true < mpf(10) ** -300:
        return Check(what, WRONG, f"it is called exact, and {said}")
    return Check(what, AGREES, said)


def _sentence(document: dict[str, Any], facts: Facts) -> Iterator[Check]:
    """Compare the sentence of version 1 with the fields, and the privacy unit with the relation."""
    guarantee, group, wrong = document["guarantee"], document["relation"]["group"], []
    said, fields = guarantee.get("statement", ""), (exact(guarantee["epsilon"]), exact(guarantee.get("delta", 0)))
    found = re.search(r"at most e\^(\S+) a(?: \+ (\S+))?\.$", said)
    if found:
        numbers, (unit,) = [Fraction(text or 0) for text in found.groups()], re.findall(r"up to (\d+) rec", said) or [1]
        for name, text, field, digits in zip(("epsilon", "delta"), numbers, fields, (5, 2), strict=True):
            if not field <= text <= field * (1 + Fraction(2, 10**digits)):  # rounded up to six digits, and to three
                wrong.append(f"{name} is {float(field):g} in the fields and {float(text):g} in the sentence")
        if (int(unit), "in the table" in said) != (group, facts.relation == "add-remove"):
            wrong.append("the sentence is about another privacy unit or relation")
        if said.startswith("Whatever") and guarantee["kind"] != "unconditional":
            wrong.append("the sentence does not say that the guarantee is not proved")
    elif document.get("discreet_certificate") != 2:
        numbers = [Fraction(text) for text in re.findall(r"[0-9.]*[0-9]", said)]
        if not numbers or fields[0] > max(numbers) * (1 + Fraction(1, 10**6)):
            wrong.append("the sentence states a smaller epsilon than the fields")
    if facts.covered != group:
        wrong.append(f"a unit has up to {facts.covered} records, and the promise is about {group}")
    slots = facts.covered if facts.unit and not facts.parameters.get("unit_votes") else 1
    if facts.relation == "replacement" and facts.n % slots:
        wrong.append("the number of records is no multiple of a unit's slots")
    yield Check("guarantee.statement", WRONG if wrong else AGREES, "; ".join(wrong) or "as the fields")


def _numbers(document: dict[str, Any], promise: Promise) -> Iterator[Check]:
    guarantee = document["guarantee"]
    kind, attained = guarantee["kind"], guarantee["exact"] is True
    said = f"{kind}, of {' and '.join(promise.kinds)}"
    yield Check("guarantee.kind", AGREES if kind in promise.kinds else WRONG, said)
    theorems = MECHANISMS[document["mechanism"]["name"]][1]
    fits = guarantee["theorem"].removesuffix(", chained") in theorems.split()
    yield Check("guarantee.theorem", AGREES if fits else WRONG, f"{guarantee['theorem']}, of {theorems}")
    unproved = (CANNOT if promise.rough == 1 else WRONG) if attained and not promise.exact else AGREES
    yield Check("guarantee.exact", unproved, f"claimed: {attained}, proved: {promise.exact}")
    pairs = [("guarantee.delta", guarantee["epsilon"], guarantee.get("delta", 0))]
    pairs += [(f"guarantee.profile[{i}]", *pair) for i, pair in enumerate(guarantee["profile"])]
    for what, epsilon, delta in pairs:
        try:
            yield _claim(what, exact(epsilon), exact(delta), promise, attained=attained and promise.exact)
        except StoppedError as stopped:
            yield Check(what, *stopped.args)
    if guarantee["pure_epsilon"] is not None:
        stated = exact(guarantee["pure_epsilon"])
        fits = stated >= promise.pure if isinstance(promise.pure, Fraction) else number(stated) >= promise.pure
        said = f"it is {mpmath.nstr(number(promise.pure), 15)}, stated {float(stated)!r}"
        yield Check("guarantee.pure_epsilon", AGREES if fits else CANNOT if promise.rough == 1 else LESS, said)
    if "epsilon_each" in guarantee:
        tables = document["mechanism"].get("parameters", document["mechanism"])["tables"]
        fits = exact(guarantee["epsilon_each"]) * tables >= promise.pure
        yield Check("guarantee.epsilon_each", AGREES if fits else LESS, f"{tables} tables of {promise.pure / tables}")
    if "attack" in guarantee:
        yield _attack(guarantee["attack"], promise)
    for caveat in guarantee["caveats"]:
        said = re.search(r"(?:verbatim, with|'single-label',) '?probability'?:? (?:Decimal\(')?([^'\s]+)", str(caveat))
        if said and promise.alone is not None:  # in words to the digits that it has, in a code to those of a float
            fits = number(Fraction(said[1])) >= promise.alone * (1 - mpf(10) ** (-2 if isinstance(caveat, str) else -9))
            detail = f"a label of one record: {mpmath.nstr(promise.alone, 6)}, stated {said[1]}"
            yield Check("guarantee.caveats", AGREES if fits else LESS, detail)


def _attack(attack: dict[str, Any], promise: Promise) -> Check:
    """Compare what the best attacker is said to reach with the profile, each delta of which bounds a detection."""
    values = {name: number(exact(value)) for name, value in attack.items()}
    claimed, share = [*values.values(), mpf(0)][:2]
    if values.keys() == {"advantage"}:
        reached = promise.delta(Fraction(0))
    elif values.keys() == {"success", "prior"}:
        share = min(share, 1 - share)
        odds = Fraction(int(mpmath.log((1 - share) / share) * 2**90), 2**90)  # rounded down
        reached = 1 - share + share * promise.delta(odds)
    elif values.keys() == {"detection", "false_alarms"}:

        def bound(epsilon: Fraction) -> Any:
            delta, growth = promise.delta(epsilon), mpmath.exp(number(epsilon))
            return min(growth * share + delta, 1 - (1 - share - delta) / growth)

        low, high = Fraction(0), Fraction(max(20, math.ceil(-mpmath.log(share))))
        while (reached := bound(low)) > claimed and high - low > Fraction(1, 2**50):  # it falls, and then rises
            middle = (low + high) / 2
            low, high = (middle, high) if bound(middle + (high - low) / 2**20) < bound(middle) else (low, middle)
    else:
        return Check("guarantee.attack", WRONG, "it is not known")
    said = f"reached: {mpmath.nstr(reached, 12)}, stated: {mpmath.nstr(claimed, 12)}"
    less = CANNOT if claimed >= reached * (1 - promise.rough) else LESS
    return Check("guarantee.attack", AGREES if claimed >= reached else less, said)


def verify(text: str, data: Path | None = None) -> list[Check]:
    """Check every privacy number of a certificate, and the released files where they are given."""
    document = json.loads(text, parse_float=decimal.Decimal, parse_constant=decimal.Decimal)
    found: list[Check] = []
    parts: list[Callable[[], Iterator[Check]]] = [
        lambda: _numbers(document, promise_of(document)),
        lambda: _sentence(document, Facts(document)),
        lambda: files(document, data),
    ]
    if isinstance(document, dict) and document.get("discreet_certificate") == 2:
        parts.append(lambda: form(document, Facts(document)))
    for part in parts:
        try:
            found += part()
        except StoppedError as stopped:
            found.append(Check("guarantee", *stopped.args))
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError) as error:
            found.append(Check("guarantee", CANNOT, f"a field is missing or of another form ({type(error).__name__})"))
    return found
