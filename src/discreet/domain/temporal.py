"""Dates, datetimes, times of day and durations: exact points a public step apart."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from discreet._core.boundary import sealed
from discreet._core.errors import plain, unfit
from discreet._core.lazy import pl
from discreet._core.numeric import Integers
from discreet.domain.integers import LatticeColumn
from discreet.domain.texts import Misfit, PublicFact, settle, span

_MICROSECOND = dt.timedelta(microseconds=1)
_LONGEST = 2**62 * _MICROSECOND
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock columns have no zone
_STEP = PublicFact("step", "its rounding step", '"1h"', "rounding step of the released values")


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Date(LatticeColumn):
    """A calendar day between public bounds, both included.

    Parameters
    ----------
    lower, upper : datetime.date or str
        Public bounds, ISO 8601 (``1990-01-31``).
    cells : int, optional
        Number of groups of neighbouring days; each day is a cell by default.
    out_of_bounds : {"error", "clip"}
        What a day outside the bounds is.
    format : str, optional
        How days are written in texts, such as ``"%m/%d/%Y"``; ISO 8601 by default.
    atoms, coin, nulls, base, null_values, strip
        See :class:`Numeric` and :class:`Column`.

    Raises MissingPublicFact if a bound is not declared, DomainError if the facts contradict each other.

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> born = Date(lower="1900-01-01", upper="1999-12-31", cells=10)
    >>> born.decode(born.encode([dt.date(1950, 6, 1)]), rng=seeded(0)).dtype
    Date
    """

    kind: ClassVar[str] = "date"
    text_form: ClassVar[tuple[str, str]] = ("dates written YYYY-MM-DD", 'format = "%m/%d/%Y", or type = "datetime"')
    _unit: ClassVar[float] = 1.0
    position_unit: ClassVar[str] = "days"
    _value_at: ClassVar[Any] = staticmethod(lambda days: (_EPOCH + dt.timedelta(days=days)).date())
    format: str | None = None

    public_facts: ClassVar[tuple[PublicFact, ...]] = (
        PublicFact("lower", "its first day", "1900-01-01", "first day that can occur"),
        PublicFact("upper", "its last day", "2030-12-31", "last day that can occur"),
    )

    def _check(self) -> None:
        settle(self, lower=self._day("lower", self.lower), upper=self._day("upper", self.upper))
        self._set_points(self._units("lower", self.lower), self._units("upper", self.upper))

    def _units(self, name: str, value: Any) -> int:
        return (self._day(name, value) - _EPOCH.date()).days

    def _day(self, name: str, value: Any) -> dt.date:
        try:
            day = dt.date.fromisoformat(value) if isinstance(value, str) else plain(value)
        except ValueError:
            day = None
        if not isinstance(day, dt.date) or isinstance(day, dt.datetime):
            raise unfit(name, "a date such as 1990-01-31", value, error=self._error)
        return day

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read dates of the declared format, or of ISO 8601, midnight included."""
        days = texts.str.to_date(self.format or "%Y-%m-%d", strict=False)
        if self.format is None and days.null_count() > texts.null_count():
            days = texts.str.replace(r"[T ]00:00(:00(\.0+)?)?$", "").str.to_date("%Y-%m-%d", strict=False)
        return days

    def _accepts(self, dtype: pl.DataType) -> bool:
        return dtype == pl.Date or (isinstance(dtype, pl.Datetime) and dtype.time_zone is None)

    def _to_units(self, series: pl.Series) -> tuple[Integers, Sequence[Misfit]]:
        days, inexact = series.to_physical().cast(pl.Int64), []
        if isinstance(series.dtype, pl.Datetime):
            day = 86_400 * {"ms": 10**3, "us": 10**6, "ns": 10**9}[series.dtype.time_unit]
            timed = (days % day != 0).to_numpy()
            inexact.append(Misfit("holds times of day", 'cut them off, or declare type = "datetime"', timed))
            days //= day
        return days.to_numpy(), inexact

    def _from_units(self, units: Integers) -> pl.Series:
        return pl.Series(units).cast(pl.Int32).cast(pl.Date)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SteppedColumn(LatticeColumn):
    """Moments or lengths of time, in microseconds."""

    _unit: ClassVar[float] = 1e-6
    position_unit: ClassVar[str] = "seconds"
    step: Any = None

    def _length(self, name: str, value: Any) -> dt.timedelta:
        duration = span(value) if isinstance(value, str) else plain(value)
        if not isinstance(duration, dt.timedelta):
            raise unfit(name, 'a duration such as "1h" or "1d12h30m"', value, error=self._error)
        return duration

    def _to_units(self, series: pl.Series) -> tuple[Integers, Sequence[Misfit]]:
        factor = 86_400 * 10**6
        if series.dtype != pl.Date:
            if series.dtype.time_unit != "ms":  # type: ignore[attr-defined]
                return series.dt.cast_time_unit("us").to_physical().to_numpy(), ()
            factor = 1000
        farthest = (2**63 - 1) // factor  # as near as 64 bits can tell
        return (series.to_physical().cast(pl.Int64).clip(-farthest, farthest) * factor).to_numpy(), ()


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Datetime(_SteppedColumn):
    """A moment between public bounds, rounded to the nearest point of a public step.

    Parameters
    ----------
    lower, upper : datetime.datetime or str
        Public bounds, ISO 8601. With ``time_zone``, bounds without an offset are clock times in that zone.
    step : datetime.timedelta or str
        Public rounding step from ``lower`` on, such as ``"1h"``, ``"15m"`` or ``"1d12h"`` (w, d, h, m, s, ms, us).
    cells : int, optional
        Number of groups of neighbouring points; each point is a cell by default.
    time_zone : str, optional
        IANA name of the zone; the column then holds moments, else clock times.
    out_of_bounds : {"error", "clip"}
        What a moment outside the bounds is.
    format : str, optional
        How moments are written in texts, such as ``"%m/%d/%Y %H:%M"``; ISO 8601 by default.
    atoms, coin, nulls, base, null_values, strip
        See :class:`Numeric` and :class:`Column`.

    Raises MissingPublicFact if a bound or the step is not declared, DomainError if the facts contradict each other.

    Examples
    --------
    >>> stop = Datetime(lower="2024-01-01", upper="2024-12-31T23:00", step="1h")
    >>> stop.size
    8784
    """

    kind: ClassVar[str] = "datetime"
    text_form: ClassVar[tuple[str, str]] = (
        "moments written YYYY-MM-DD HH:MM:SS",
        'format = "%m/%d/%Y %H:%M", or with an offset time_zone = "Europe/Paris"',
    )
    public_facts: ClassVar[tuple[PublicFact, ...]] = (
        PublicFact("lower", "its first moment", "2024-01-01T00:00:00", "first moment that can occur"),
        PublicFact("upper", "its last moment", "2024-12-31T23:00:00", "last moment that can occur"),
        _STEP,
    )
    _value_at: ClassVar[Any] = staticmethod(lambda seconds: _EPOCH + dt.timedelta(seconds=seconds))
    time_zone: str | None = None
    format: str | None = None

    def _check(self) -> None:
        if self.time_zone is not None:
            try:
                ZoneInfo(self.time_zone)
            except (KeyError, ValueError, TypeError, OSError):
                name = "an IANA name such as 'Europe/Paris'"
                raise unfit("time_zone", name, self.time_zone, error=self._error) from None
        lower, upper = self._moment("lower", self.lower), self._moment("upper", self.upper)
        settle(self, lower=lower, upper=upper, step=self._length("step", self.step))
        self._set_points(self._units("lower", lower), self._units("upper", upper), self.step // _MICROSECOND)

    def _units(self, name: str, value: Any) -> int:
        moment = self._moment(name, value)
        return (moment - _EPOCH.replace(tzinfo=moment.tzinfo)) // _MICROSECOND

    def _moment(self, name: str, value: Any) -> dt.datetime:
        try:
            moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else plain(value)
        except ValueError:
            moment = None
        if isinstance(moment, dt.date) and not isinstance(moment, dt.datetime):
            moment = dt.datetime.combine(moment, dt.time())
        if not isinstance(moment, dt.datetime):
            raise unfit(name, "a datetime such as 2024-01-31T12:00:00", value, error=self._error)
        if self.time_zone is None:
            if moment.tzinfo is not None:
                self._refuse(f"{name} has a time zone. Declare time_zone, or leave out the offset")
            return moment
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(self.time_zone))
        return moment.astimezone(dt.UTC)

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read the declared format, or ISO 8601; with a time zone, without an offset as clock times in that zone."""
        text, forms = pl.lit(texts), [self.format or ""]
        if self.format is None:
            text = text.str.replace(" ", "T", literal=True).str.replace(r"Z$", "+00:00")
            forms = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%.f%:z"]
        walls = [form for form in forms if not re.search("%[:#]*z", form)]
        moments = [text.str.to_datetime(form, time_unit="us", strict=False) for form in walls]
        if self.time_zone is not None:
            options: Any = {"ambiguous": "earliest", "non_existent": "null"}
            local = [wall.dt.replace_time_zone(self.time_zone, **options) for wall in moments]
            moments = [wall.dt.convert_time_zone("UTC") for wall in local]
            options = {"time_unit": "us", "time_zone": "UTC", "strict": False}
            moments += [text.str.to_datetime(form, **options) for form in forms if form not in walls]
        return pl.select(pl.coalesce(moments)).to_series()

    def _accepts(self, dtype: pl.DataType) -> bool:
        if isinstance(dtype, pl.Datetime):
            return (dtype.time_zone is None) == (self.time_zone is None)
        return dtype == pl.Date and self.time_zone is None

    def _from_units(self, units: Integers) -> pl.Series:
        moments = pl.Series(units).cast(pl.Datetime("us"))
        if self.time_zone is None:
            return moments
        return moments.dt.replace_time_zone("UTC").dt.convert_time_zone(self.time_zone)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Duration(_SteppedColumn):
    """A length of time between public bounds, rounded to the nearest point of a public step.

    Parameters
    ----------
    lower, upper : datetime.timedelta or str
        Public bounds, such as ``"0s"`` and ``"2d12h"``; a leading minus sign for negative ones.
    step : datetime.timedelta or str
        Public rounding step from ``lower`` on.
    cells : int, optional
        Number of groups of neighbouring points; each point is a cell by default.
    out_of_bounds : {"error", "clip"}
        What a duration outside the bounds is.
    atoms, coin, nulls, base, null_values, strip
        See :class:`Numeric` and :class:`Column`.

    Raises MissingPublicFact if a bound or the step is not declared, DomainError if the facts contradict each other.

    Examples
    --------
    >>> Duration(lower="0s", upper="1h", step="1m").encode([dt.timedelta(minutes=7)]).tolist()
    [7]
    """

    kind: ClassVar[str] = "duration"
    text_form: ClassVar[tuple[str, str]] = ("durations written 1d2h30m", "")
    public_facts: ClassVar[tuple[PublicFact, ...]] = (
        PublicFact("lower", "its shortest duration", '"0s"', "shortest duration that can occur"),
        PublicFact("upper", "its longest duration", '"24h"', "longest duration that can occur"),
        _STEP,
    )

    def _check(self) -> None:
        settle(self, **{name: self._length(name, getattr(self, name)) for name in ("lower", "upper", "step")})
        settle(self, notation={**self.notation, "step": None})  # Polars writes none as they are read
        self._set_points(self.lower // _MICROSECOND, self.upper // _MICROSECOND, self.step // _MICROSECOND)

    def _units(self, name: str, value: Any) -> int:
        return self._length(name, value) // _MICROSECOND

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read durations such as ``1d2h30m``."""
        spans = [span(text or "") for text in texts]
        lengths = [length and min(max(length, -_LONGEST), _LONGEST) for length in spans]
        return pl.Series(lengths, dtype=pl.Duration("us"))

    def _accepts(self, dtype: pl.DataType) -> bool:
        return dtype == pl.Duration

    def _from_units(self, units: Integers) -> pl.Series:
        return pl.Series(units).cast(pl.Duration("us"))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Time(_SteppedColumn):
    """A time of day between public bounds, rounded to the nearest point of a public step.

    Parameters
    ----------
    lower, upper : datetime.time or str
        Public bounds, such as ``"07:30"``; the whole day by default.
    step, cells, out_of_bounds, format, atoms, coin, nulls, base, null_values, strip
        As for :class:`Datetime`; a format is such as ``"%I:%M %p"``.

    Raises MissingPublicFact if the step is not declared, DomainError if the facts contradict each other.

    Examples
    --------
    >>> Time(step="15m").encode(["07:35", "23:59"]).tolist()
    [30, 95]
    """

    kind: ClassVar[str] = "time"
    text_form: ClassVar[tuple[str, str]] = ("times of day written HH:MM or HH:MM:SS", 'format = "%I:%M %p"')
    public_facts: ClassVar[tuple[PublicFact, ...]] = (_STEP._replace(example='"15m"'),)
    _value_at: ClassVar[Any] = staticmethod(lambda seconds: (_EPOCH + dt.timedelta(seconds=seconds)).time())
    lower: Any = "00:00:00"
    upper: Any = "23:59:59.999999"
    format: str | None = None

    def _check(self) -> None:
        settle(self, step=self._length("step", self.step), notation={**self.notation, "format": self.format})
        ends = {name: self._units(name, getattr(self, name)) for name in ("lower", "upper")}
        settle(self, **{name: str((_EPOCH + end * _MICROSECOND).time()) for name, end in ends.items()})
        self._set_points(ends["lower"], ends["upper"], self.step // _MICROSECOND)

    def _units(self, name: str, value: Any) -> int:
        with suppress(TypeError, ValueError):
            clock = dt.time.fromisoformat(value) if isinstance(value, str) else plain(value)
            return (dt.datetime.combine(_EPOCH, clock) - _EPOCH) // _MICROSECOND  # TypeError with a time zone
        raise unfit(name, "a time of day such as 07:30", value, error=self._error)

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read times of the declared format, or written ``7:05``, ``07:05`` or ``07:05:30.25``."""
        forms = ("%H:%M", "%H:%M:%S%.f") if self.format is None else (self.format,)
        return pl.select(pl.coalesce(pl.lit(texts).str.to_time(form, strict=False) for form in forms)).to_series()

    def _accepts(self, dtype: pl.DataType) -> bool:
        return dtype == pl.Time

    def _to_units(self, series: pl.Series) -> tuple[Integers, Sequence[Misfit]]:
        return series.to_physical().to_numpy() // 1000, ()

    def _from_units(self, units: Integers) -> pl.Series:
        return pl.Series(units * 1000).cast(pl.Time)
