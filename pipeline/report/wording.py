"""How numbers read on the page; one place, so that figures, sentences and tables say the same."""

from collections.abc import Iterable, Sequence

MINUS = "−"


def signed(value: float) -> str:
    """Percentage points with sign, two decimals; a rounded zero has no minus."""
    text = f"{value:+.2f}"
    return "0.00" if text in ("-0.00", "+0.00") else text.replace("-", MINUS)


def span(low: float, high: float) -> str:
    """An interval, two decimals."""
    return f"[{low:.2f}, {high:.2f}]".replace("-0.00", "0.00").replace("-", MINUS)


def p_text(value: float | None) -> str:
    """A p-value to three places (< .001 below that), or a dash where there is none."""
    if value is None:
        return "–"
    if value < 0.0005:
        return "< .001"
    return "1" if value >= 0.9995 else f"{value:.3f}"[1:]


def p_equals(value: float | None) -> str:
    """A p-value inside a sentence."""
    text = p_text(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def number(value: float) -> str:
    """A count; where it is an expectation, with one decimal."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def share(count: float, of: int) -> str:
    """A count with its share: `6/93 (6.5%)`."""
    return f"{number(count)}/{of:,} ({100 * count / of:.1f}%)" if of else f"{number(count)}/0"


def extent(values: Iterable[int]) -> str:
    """Smallest to largest of some counts: `3–6`, or `4` where they are one."""
    values = sorted(values)
    return str(values[0]) if values[0] == values[-1] else f"{values[0]}–{values[-1]}"


def listed(words: Sequence[object]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    texts = [str(word) for word in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def counted(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def population(name: str) -> str:
    """What a population is, in words."""
    return "all feasible tasks" if name == "complete" else "tasks that succeed unaltered"
