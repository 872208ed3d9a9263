"""Where things are usually found: a coarse guess by family, written by hand and not counted on any games."""

_KITCHEN = ("countertop", "cabinet", "drawer", "diningtable", "shelf", "stoveburner")
_FAMILIES: list[tuple[str, tuple[str, ...]]] = [
    ("mug cup bowl plate glassbottle winebottle pan pot kettle", _KITCHEN),
    ("fork spoon knife butterknife spatula ladle saltshaker peppershaker dishsponge papertowelroll", _KITCHEN),
    ("apple tomato potato lettuce egg bread", ("fridge", "countertop", "diningtable", "garbagecan")),
    (
        "pen pencil cd creditcard keychain cellphone watch alarmclock book laptop remotecontrol newspaper box",
        ("desk", "sidetable", "drawer", "coffeetable", "dresser", "shelf"),
    ),
    ("pillow baseballbat basketball tennisracket teddybear", ("bed", "sofa", "armchair", "desk")),
    (
        "candle tissuebox soapbottle spraybottle soapbar cloth handtowel towel toiletpaper scrubbrush plunger",
        ("cabinet", "countertop", "toilet", "sinkbasin", "bathtubbasin"),
    ),
    ("vase statue houseplant wateringcan", ("shelf", "sidetable", "diningtable", "coffeetable")),
    ("desklamp floorlamp", ("desk", "sidetable", "dresser", "shelf")),
]
USUAL_PLACES = {thing: places for things, places in _FAMILIES for thing in things.split()}

STATIONS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}


def kind(name: str) -> str:
    """Kind of a numbered thing: `desk` of `desk 1`."""
    return name.rpartition(" ")[0]


def search_order(thing: str, places: list[str], likely_kinds: int) -> list[str]:
    """`places` with those first whose kind is among the `likely_kinds` likeliest present for a kind of thing."""
    present = {kind(place) for place in places}
    likely = [usual for usual in USUAL_PLACES.get(thing, ()) if usual in present][:likely_kinds]
    ranks = {usual: rank for rank, usual in enumerate(likely)}
    return sorted(places, key=lambda place: ranks.get(kind(place), len(ranks)))
