"""Tables written with their certificate; statistics across tables; frontiers and pictures."""

import datetime as dt
import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet
from discreet import release
from discreet._core.lazy import dist, numpyro
from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.confidential import confidential
from discreet.domain import Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, Records
from discreet.errors import DomainError, FileProblem, GuaranteeKindError, ParameterError
from discreet.pseudo_posterior import (
    CensoredPosterior,
    Convergence,
    PoissonMean,
    Predictor,
    PseudoPosterior,
    across_tables,
    synthesiser_for,
)
from discreet.pseudo_posterior.models import codes_of
from discreet.pseudo_posterior.regressions import CategoricalShares
from discreet.pseudo_posterior.risk_frontier import barycentre, resampled
from discreet.pseudo_posterior.synthesiser import FromModel
from discreet.releases import verify

pytestmark = pytest.mark.chains

VISITS = Domain(columns={"visits": Integer(lower=0, upper=500)})
TABLE = pl.DataFrame({"visits": seeded(1).poisson(100.0, size=200)})
CLOSED = confidential(TABLE, VISITS)
GRID = {"mean": np.linspace(1.0, 300.0, 300)}
POISSON = PoissonMean(column="visits")
ON_GRID = CensoredPosterior(POISSON, bound=0.5, grid=GRID)
WEIGHTED = PseudoPosterior(POISSON, target_epsilon=6.0)
ASKED = ("--model", "poisson", "--sensitive", "visits")


def disagreeing(folder) -> list[str]:
    return [check.what for check in verify(folder) if not check.agrees]


def test_tables_and_certificate_appear_together_and_can_be_verified(tmp_path) -> None:
    made = release(CLOSED, mechanism=replace(WEIGHTED, tables=3), out=tmp_path / "out", accept={"asymptotic"})
    assert sorted(p.name for p in made.path.iterdir()) == [
        "certificate.json", "table-01.parquet", "table-02.parquet", "table-03.parquet"]  # fmt: skip
    tables = [pl.read_parquet(made.path / f"table-0{i}.parquet") for i in (1, 2, 3)]
    assert all(table.schema == {"visits": pl.Int64} and table.height == 200 for table in tables)
    assert not tables[0].equals(tables[1])
    promise = made.certificate.to_dict()["guarantee"]
    assert (promise["kind"], promise["theorem"]) == ("asymptotic", "T19")
    assert (promise["epsilon_each"], promise["epsilon"]) == pytest.approx((6.0, 18.0))
    assert "Not formal differential privacy" in str(made)
    assert verify(made.path)
    assert disagreeing(made.path) == []


def test_the_certificate_holds_nothing_that_was_measured(tmp_path) -> None:
    facts = []
    for i, shift in enumerate((0, 40)):
        closed = confidential(TABLE.with_columns(pl.col("visits") + shift), VISITS)
        made = release(closed, mechanism=WEIGHTED, out=tmp_path / str(i), accept={"asymptotic"})
        facts.append(made.certificate.to_dict())
        for name in ("created", "identity", "released"):
            del facts[-1][name]
    assert facts[0] == facts[1]


def test_a_changed_table_or_promise_is_found(tmp_path) -> None:
    folder = release(CLOSED, mechanism=replace(ON_GRID, tables=2), out=tmp_path / "out").path
    path = folder / "certificate.json"
    whole = json.loads(path.read_text())
    first, second = whole["released"]["tables"]

    def changed(**parts) -> list[str]:
        path.write_text(json.dumps({**whole, **parts}))
        return disagreeing(folder)

    for key, value in (("epsilon", 0.1), ("pure_epsilon", 0.1), ("kind", "empirical"), ("caveats", [])):
        assert changed(guarantee={**whole["guarantee"], key: value}) == [f"guarantee.{key}"]
    for tables, found in (
        ([first, first], ["tables in the folder"]),
        ([first], ["released.tables", "tables in the folder"]),
        ([{**first, "rows": 7}, second], ["table-01.parquet.rows", "table-01.parquet.rows (in the file)"]),
    ):
        assert changed(released={**whole["released"], "tables": tables}) == found
    assert changed(released={**whole["released"], "columns": ["visit"]}) == [
        "released.columns", *(f"table-0{i}.parquet.columns (in the file)" for i in (1, 2))]  # fmt: skip
    assert changed(identity="0" * 32) == [f"table-0{i}.parquet.identity (in the file)" for i in (1, 2)]
    with pytest.raises(FileProblem, match="from another release"):
        discreet.read(folder)
    assert changed() == []
    assert [len(table) for table in discreet.read(folder).table()] == [len(TABLE)] * 2
    (folder / "table-03.parquet").write_bytes(b"other")
    assert disagreeing(folder) == ["tables in the folder"]
    (folder / "table-03.parquet").unlink()
    (folder / "table-02.parquet").write_bytes(b"other")
    assert disagreeing(folder) == ["table-02.parquet.sha256"]
    path.write_text("{}")
    with pytest.raises(FileProblem, match="not a discreet certificate"):
        verify(folder)


def test_the_verify_command_checks_a_folder_of_tables(tmp_path, command, capsys) -> None:
    folder = tmp_path / "out"
    assert run(command(TABLE, VISITS, *ASKED, "--tables", "2", "--target-epsilon", "8")) == 0
    checks = verify(folder)
    stated = ", ".join(check.what for check in checks if check.stated)
    answer = f"All {sum(not check.stated for check in checks)} claims agree.\nStated, not checked: {stated}.\n"
    assert stated == "created, library.version, released.outcome, released.share_from_data"

    def verified(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        status = run(["verify", *map(str, arguments)])
        seen = capsys.readouterr()
        return status, seen.out + seen.err

    assert verified(folder) == (0, answer)
    document = json.loads(verified(folder, "--json")[1])
    assert (document["agrees"], document["data_checked"], len(document["checks"])) == (True, True, len(checks))
    assert [check["what"] for check in document["checks"] if check["stated"]] == stated.split(", ")
    status, said = verified(folder, "--data", folder / "table-01.parquet")
    assert (status, "Leave data out" in said) == (2, True)
    status, said = verified(folder / "certificate.json")
    assert (status, "The released file was not checked" in said) == (0, True)
    assert verified(folder / "certificate.json", "--data", folder) == (0, answer)

    (folder / "table-02.parquet").write_bytes((folder / "table-01.parquet").read_bytes())
    status, said = verified(folder)
    assert status == 1
    assert said.startswith("table-02.parquet.sha256: the certificate says ")
    unread = sum("table-02.parquet." in check.what for check in checks) - 2  # all but its hash and its stated rows
    compared = sum(not check.stated for check in checks) - unread
    assert f"Claims that disagree: 1 of {compared}. Do not rely on this certificate.\n" in said
    (folder / "table-02.parquet").unlink()
    assert verified(folder, "--json")[0] == 1
    (folder / "certificate.json").unlink()
    assert verified(folder)[0] == 2


@pytest.mark.parametrize("odd", [None, [], {}, "x", -1, 10**400, math.nan], ids=range(7))
def test_no_certificate_of_tables_makes_verify_fail(tmp_path, capsys, odd) -> None:
    folder = release(CLOSED, mechanism=ON_GRID, out=tmp_path / "out").path
    path = folder / "certificate.json"
    whole = json.loads(path.read_text())
    parsed = odd not in (10**400, math.nan)  # which are no numbers of JSON, or too long for one
    for part in ("mechanism", "relation", "guarantee", "released"):
        for key in whole[part]:
            path.write_text(json.dumps({**whole, part: {**whole[part], key: odd}}))
            assert run(["verify", str(folder)]) in ({0, 1} if parsed else {2}), (part, key)
    for key, value in whole["mechanism"]["parameters"].items():
        given = {**whole["mechanism"]["parameters"], key: odd}
        path.write_text(json.dumps({**whole, "mechanism": {**whole["mechanism"], "parameters": given}}))
        free = key in ("model", "chains") or odd is value or odd == value  # which nothing can recompute
        assert run(["verify", str(folder)]) in ({0, 1} if free and parsed else {1} if parsed else {2}), key
    for key in ("mechanism", "relation", "guarantee", "records", "size", "released", "randomness", "shows"):
        path.write_text(json.dumps({**whole, key: odd}))
        assert run(["verify", str(folder)]) == (1 if parsed else 2), key
    assert "fault" not in capsys.readouterr().err


def test_the_certificate_holds_the_limits_of_convergence_and_nothing_measured(tmp_path) -> None:
    def made(out, **limits):
        few = replace(WEIGHTED, draws=60, chains=2, convergence=Convergence(**limits))
        return release(CLOSED, mechanism=few, out=tmp_path / out, accept={"asymptotic"})

    some = made("some", r_hat=12345678.5, effective=20.0, divergent=math.inf)
    assert some.certificate.to_dict()["mechanism"]["parameters"]["chains"] == {
        "chains": 2, "draws": 60, "warm_up": 1000, "doublings": 3,
        "refused_beyond": {"r_hat": 12345678.5, "effective": 20.0, "divergent": None}}  # fmt: skip
    met = "met the limits of convergence: R-hat at most 12345678.5, at least 20 effective draws per chain\n"
    assert met in str(some)  # with all their digits
    assert disagreeing(some.path) == []
    none = made("none", r_hat=math.inf, effective=-math.inf, divergent=math.inf)
    assert "no limit of convergence was set" in str(none)


def test_limits_from_the_command_reach_certificate_and_chains(tmp_path, command, capsys) -> None:
    common = ["--sensitive", "visits", "--target-epsilon", "30", "--chains", "2", "--draws", "30", "--warm-up", "60",
              "--max-r-hat", "2.5", "--max-divergent", "0.75"]  # fmt: skip
    assert run(command(TABLE, VISITS, *common, "--min-effective", "0.5", "--model", "poisson")) == 0
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    limits = facts["mechanism"]["parameters"]["chains"]["refused_beyond"]
    assert limits == {"r_hat": 2.5, "effective": 0.5, "divergent": 0.75}
    capsys.readouterr()
    # More effective draws than there can be: refused whatever the chains are, and nothing is left behind.
    assert run(command(TABLE, VISITS, *common, "--min-effective", "1e6", "--model", "linear", out="b")) == 3
    said = capsys.readouterr().err
    assert "(the effective sample size" in said
    assert not any(character.isdigit() for character in said)
    assert not (tmp_path / "b").exists()


def test_what_cannot_be_published_is_refused_before_anything_is_read(tmp_path) -> None:
    with pytest.raises(GuaranteeKindError, match="asymptotic"):
        release(CLOSED, mechanism=WEIGHTED, out=tmp_path / "out")
    with pytest.raises(FileProblem, match="exists already"):
        release(CLOSED, mechanism=WEIGHTED, out=tmp_path, accept={"asymptotic"})
    with pytest.raises(ParameterError, match="'other'"):
        release(CLOSED, mechanism=CensoredPosterior(PoissonMean(column="other"), bound=1.0), out=tmp_path / "out")
    nulls = Domain(columns={"visits": Integer(lower=0, upper=500, nulls="category")})
    with pytest.raises(DomainError, match="'visits': a sensitive column cannot have nulls"):
        release(confidential(TABLE, nulls), mechanism=WEIGHTED, out=tmp_path / "out", accept={"asymptotic"})
    assert list(tmp_path.iterdir()) == []


def test_chains_of_the_censored_form_are_published_only_where_that_is_accepted(tmp_path, command, capsys) -> None:
    mechanism = CensoredPosterior(POISSON, bound=0.5, draws=30, warm_up=30, chains=2,
                                  convergence=Convergence(r_hat=math.inf, effective=0.0, divergent=1.0))  # fmt: skip
    with pytest.raises(GuaranteeKindError, match="posterior sampling is exact.*accept={'empirical'}"):
        release(CLOSED, mechanism=mechanism, out=tmp_path / "out", accept={"asymptotic"})
    arguments = command(TABLE, VISITS, *ASKED, "--bound", "0.5")
    (tmp_path / "data.parquet").unlink()  # it is refused before anything is read
    assert run(arguments) == 3
    assert "--accept-empirical" in capsys.readouterr().err
    made = release(CLOSED, mechanism=mechanism, out=tmp_path / "out", accept={"empirical"})
    assert made.certificate.to_dict()["guarantee"]["kind"] == "empirical"
    assert str(made.certificate).startswith("If what it assumes holds, which is not proved, the best attacker")
    assert "- it assumes: posterior sampling is exact" in str(made)
    assert disagreeing(made.path) == []


def test_a_printed_epsilon_is_never_below_the_true_one(tmp_path) -> None:
    mechanism = CensoredPosterior(POISSON, bound=1 / 6, tables=3, grid=GRID, size=7)
    made = release(CLOSED, mechanism=mechanism, out=tmp_path / "out")
    assert "with probability at most e^1 a, where a is" in str(made)
    assert "- 0.333334 for each of 3 tables" in str(made)
    whole = made.certificate.to_dict()
    assert whole["guarantee"]["epsilon_each"] >= 1 / 3
    assert [table["rows"] for table in whole["released"]["tables"]] == [7, 7, 7]
    assert disagreeing(made.path) == []
    whole["mechanism"]["parameters"]["size"] = None
    (made.path / "certificate.json").write_text(json.dumps(whole))
    assert disagreeing(made.path) == [*(f"table-0{i}.parquet.rows" for i in (1, 2, 3)), "size"]


def test_a_fault_while_writing_leaves_the_output_alone(tmp_path, monkeypatch) -> None:
    import discreet.releases.writing as module

    def fail(*_, **__):
        raise OSError

    monkeypatch.setattr(module, "file_sha256", fail)
    with pytest.raises(FileProblem, match="cannot be written"):
        release(CLOSED, mechanism=ON_GRID, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == [tmp_path / ".out.output"]  # from which the next run goes on


def test_the_command_writes_tables_and_a_ledger_pays_what_the_theorem_states(tmp_path, command, capsys) -> None:
    ledger = str(tmp_path / "l")
    assert run(["ledger", "init", ledger, "--dataset", "visits", "--epsilon", "20"]) == 0
    paid = [*ASKED, "--tables", "2", "--target-epsilon", "8", "--ledger", ledger]
    assert run(command(TABLE, VISITS, *paid)) == 3
    assert "accept a weak promise (--accept-weak-promise)" in capsys.readouterr().err
    paid += ["--accept-weak-promise"]
    assert run(command(TABLE, VISITS, *paid)) == 2
    assert "write --accept data-dependent-refusal" in capsys.readouterr().err
    paid += ["--accept", "data-dependent-refusal"]
    assert run(command(TABLE, VISITS, *paid)) == 3
    assert "unconditional, and this one is asymptotic" in capsys.readouterr().err
    assert run(["ledger", "init", ledger, "--dataset", "weak", "--epsilon", "20", "--kind", "asymptotic"]) == 0
    paid += ["--dataset", "weak"]
    assert run(command(TABLE, VISITS, *paid, out="a")) == 0
    assert "local, asymptotic epsilon of 8 for each of 2 tables, 16 for all" in capsys.readouterr().out
    assert len(list((tmp_path / "a").glob("table-*.parquet"))) == 2
    with discreet.Ledger(ledger, dataset="weak") as opened:
        assert opened.status().spent == {"epsilon": 16.0, "delta": 0.0}
    assert run(command(TABLE, VISITS, *paid, out="b")) == 3
    assert "costs epsilon 16.\nIt has epsilon 4 " in capsys.readouterr().err
    assert run(["ledger", "verify", ledger, "--dataset", "weak", str(tmp_path / "a" / "certificate.json")]) == 0
    assert run(command(TABLE, VISITS, *ASKED, out="b")) == 2
    assert "--target-epsilon" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_importing_the_package_loads_no_heavy_library() -> None:
    program = "import sys, discreet.pseudo_posterior; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"jax", "numpyro", "polars", "matplotlib", "arviz"} & {name.partition(".")[0] for name in loaded}


# -- statistics across tables ------------------------------------------------------------


def test_the_barycentre_of_shifted_distributions_lies_between_them() -> None:
    rng = seeded(2)
    one = rng.normal(size=400)
    assert barycentre([one, one + 10.0], size=400) == pytest.approx(np.sort(one) + 5.0)
    assert barycentre([one], size=400) == pytest.approx(np.sort(one))
    # Of normals it is normal, with the average of the standard deviations (not the root of that of the variances).
    both = barycentre([rng.normal(size=20_000), 3.0 * rng.normal(size=20_000)], size=2000)
    assert both.std() == pytest.approx(2.0, rel=0.05)
    with pytest.raises(ParameterError, match="at least one sample"):
        barycentre([])


def test_resampling_has_the_spread_of_the_mean() -> None:
    x = seeded(3).normal(size=400)
    means = resampled(x, np.mean, rng=seeded(4), resamples=2000)
    assert means.mean() == pytest.approx(x.mean(), abs=0.01)
    assert means.std() == pytest.approx(x.std() / 20.0, rel=0.1)
    across = across_tables([x, x + 1.0], np.mean, rng=seeded(5), resamples=500)
    assert across.mean() == pytest.approx(x.mean() + 0.5, abs=0.02)


MIXED = Domain(columns={
    "income": Decimal(lower="0.00", upper="99.95", digits=2),
    "region": Category(categories=["n", "s"], dtype="category", nulls="category"),
    "born": Date(lower="1930-01-01", upper="1999-12-31", nulls="category"),
    "seen": Datetime(lower="2024-01-01", upper="2024-12-31", step="1h", time_zone="Europe/Paris"),
    "stay": Duration(lower="0s", upper="2d", step="30m"),
    "visits": Integer(lower=0, upper=500, dtype="int16"),
})  # fmt: skip


def mixed(count: int = 60) -> pl.DataFrame:
    """Records of every kind of column, two nulls among the regions and four among the dates of birth."""
    rng = seeded(11)
    codes = [rng.integers(column.values, size=count) for column in MIXED.columns.values()]
    codes[1][:2] = MIXED.columns["region"].null_code
    codes[2][:4] = MIXED.columns["born"].null_code
    return MIXED.decode(Records(columns=tuple(codes)), rng=rng)


def written(domain: Domain, table: pl.DataFrame, synthesiser, out) -> pl.DataFrame:
    mechanism = CensoredPosterior(synthesiser, bound=0.5, grid=GRID)
    made = release(confidential(table.select(domain.names), domain), mechanism=mechanism, out=out, seed=5)
    assert disagreeing(made.path) == []
    return pl.read_parquet(made.path / "table-01.parquet")


@pytest.mark.parametrize("sensitive", ["income", "seen", "stay", "visits"])
def test_every_kind_of_column_is_written_in_its_declared_type(tmp_path, sensitive) -> None:
    """Given columns come back as they were held; sensitive ones as points of their declared lattice."""
    table = mixed()
    read: dict[str, np.ndarray] = {}

    class Reading(FromModel):
        """Keeps what it is handed; a model itself is traced."""

        def public(self, columns, count):
            read.update(columns)
            return super().public(columns, count)

    def model(data):
        spread = numpyro.sample("mean", dist.Uniform(1.0, 300.0))
        middle, length = centre[sensitive], MIXED.columns[sensitive].scale
        with numpyro.plate("records", len(data[sensitive])):
            # Far wider than the bounds: what lies outside is drawn again.
            numpyro.sample(sensitive, dist.Normal(middle, length * (1.0 + spread / 300.0)), obs=data[sensitive])

    centre = {name: float(np.nanmean(MIXED.columns[name].positions(np.arange(MIXED.columns[name].values))))
              for name in ("income", "seen", "stay", "visits")}  # fmt: skip
    others = tuple(name for name in MIXED.names if name != sensitive)
    synthesiser = Reading(function=model, sensitive=(sensitive,), given=others)
    found = written(MIXED, table, synthesiser, tmp_path / "out")
    assert found.schema == table.schema
    assert found.drop(sensitive).sort(others).equals(table.drop(sensitive).sort(others))
    codes = MIXED.columns[sensitive].encode(found[sensitive])  # an error where a value is no declared one
    assert np.isin(codes, [0, MIXED.columns[sensitive].values - 1]).sum() < 10  # clipped, it was about every second
    assert len(np.unique(codes)) > 10
    assert int((read["region"] == 2).sum()) == 2
    assert int(np.isnan(read["born"]).sum()) == 4
    assert np.nanmin(read["born"]) >= (dt.date(1930, 1, 1) - dt.date(1970, 1, 1)).days
    if sensitive != "income":
        assert sorted(read["income"].round(2)) == sorted(float(value) for value in table["income"])


@given(st.data())
def test_numbers_go_to_the_nearest_point_of_every_kind_of_column(data) -> None:
    column = data.draw(st.sampled_from([
        Decimal(lower="-1.50", upper="7.00", digits=2),
        Date(lower="2020-02-27", upper="2020-03-02"),
        Datetime(lower="2024-01-01", upper="2024-01-03", step="7h"),
        Duration(lower="-1h", upper="2h", step="40m"),
        Integer(lower=-3, upper=12),
        Numeric(lower=0.0, upper=1.0, step=0.25),
    ]))  # fmt: skip
    points = column.positions(np.arange(column.values))
    value = data.draw(st.floats(points[0] - column.scale, points[-1] + column.scale))
    (code,) = codes_of(column, np.array([value]), "x", rng=seeded(0))
    gaps = np.abs(points - value)
    assert gaps[code] <= gaps.min() + 1e-9 * max(1.0, abs(value))
    grouped = replace(column, cells=3) if not isinstance(column, Numeric) else column
    (cell,) = codes_of(grouped, np.array([value]), "x", rng=seeded(0))
    low, high = (float(end[0]) for end in grouped.ends(np.array([cell])))
    assert low <= points[code] + 1e-9
    assert points[code] <= high + 1e-9


def test_models_are_built_from_dates_decimals_and_nulls() -> None:
    made = synthesiser_for(MIXED, ("income",), model="linear")
    predictors = {predictor.column: predictor for predictor in made.design.predictors}
    assert predictors["region"].categories == 3
    assert predictors["born"].nulls
    assert not predictors["seen"].nulls
    assert (made.response.lower, made.response.upper) == pytest.approx((0.0, 99.95))
    assert predictors["born"].lower == (dt.date(1930, 1, 1) - dt.date(1970, 1, 1)).days
    assert predictors["stay"].upper == 2 * 86_400.0
    coded = predictors["born"].coded(np.array([predictors["born"].lower, predictors["born"].upper, np.nan]))
    assert coded.tolist() == [[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    cut = Predictor(column="x", edges=(0.0, 1.0), nulls=True)
    assert cut.coded(np.array([-1.0, 0.5, 2.0, np.nan])).tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    seen = synthesiser_for(Domain(columns={"seen": MIXED.columns["seen"]}), ("seen",), model="linear")
    assert seen.response.transform == "identity"
    with pytest.raises(DomainError, match="'born'.*sensitive column cannot have nulls.*Fill them in"):
        synthesiser_for(MIXED, ("born",), model="linear")
    for column in (Date(lower="2020-01-01", upper="2020-12-31"), Integer(lower=-1, upper=9)):
        with pytest.raises(DomainError, match="counts"):
            synthesiser_for(Domain(columns={"x": column}), ("x",), model="poisson")
    with pytest.raises(ParameterError, match="list the null"):
        Predictor(column="x", categories=3, nulls=True)


def test_the_command_takes_dates_decimals_and_nulls(tmp_path, command) -> None:
    few = ["--chains", "2", "--draws", "30", "--warm-up", "60", "--max-r-hat", "9", "--min-effective", "0",
           "--max-divergent", "1"]  # fmt: skip
    asked = ["--model", "linear", "--sensitive", "income", "--bound", "0.5", "--accept-empirical", *few]
    assert run(command(mixed(), MIXED, *asked)) == 0
    found = pl.read_parquet(tmp_path / "out" / "table-01.parquet")
    assert found.schema == mixed().schema
    assert [found[name].null_count() for name in ("region", "born", "income")] == [2, 4, 0]


def test_released_categories_have_their_declared_types(tmp_path) -> None:
    domain = Domain(columns={"sex": Category(categories=["f", "m", "x"])})
    table = confidential(pl.DataFrame({"sex": ["f"] * 60 + ["m"] * 60}), domain)
    mechanism = PseudoPosterior(CategoricalShares(column="sex", categories=3), target_epsilon=8.0, draws=200)
    made = release(table, mechanism=mechanism, out=tmp_path / "o", accept={"asymptotic"}, seed=9)
    assert pl.read_parquet(made.path / "table-01.parquet").schema == {"sex": pl.String}
    assert made.certificate.to_dict()["randomness"].startswith("seeded")
    assert disagreeing(made.path) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--warm-up", "-1"), "warm_up"),
        (("--tables", "1000"), "got 60.\nRaise draws"),
        (("--clusters", "3"), "no clusters"),
        (("--sensitive", "visits"), "named twice"),
    ],
    ids=["warm-up", "tables", "clusters", "twice"],
)
def test_what_cannot_be_is_said_by_the_command(tmp_path, command, capsys, options, said) -> None:
    asked = [*ASKED, "--bound", "3", "--accept-empirical", "--chains", "2", "--draws", "30", *options]
    assert run(command(TABLE, VISITS, *asked)) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_grid_gives_as_many_tables_as_are_asked_for(tmp_path) -> None:
    made = release(CLOSED, mechanism=replace(ON_GRID, tables=30, chains=2, draws=10), out=tmp_path / "out")
    assert len(made.certificate.to_dict()["released"]["tables"]) == 30


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_records_or_none_are_published_like_many_where_the_size_is_public(tmp_path, count) -> None:
    few = confidential(TABLE.head(count), VISITS, empty=True)
    folder = release(few, mechanism=replace(ON_GRID, size=5), out=tmp_path / "out").path
    assert pl.read_parquet(folder / "table-01.parquet").height == 5
    assert disagreeing(folder) == []
