"""Where things are usually found: a coarse guess by kind of object, written down by hand and not counted on any games."""

_KITCHENWARE = ("countertop", "diningtable", "cabinet", "sinkbasin", "shelf")
_CUTLERY = ("countertop", "drawer", "diningtable", "sinkbasin")
_FOOD = ("fridge", "countertop", "diningtable", "sinkbasin", "garbagecan")
_COOKING = ("stoveburner", "countertop", "cabinet", "sinkbasin")
_SPICES = ("countertop", "cabinet", "diningtable", "shelf")
_SMALL = ("desk", "sidetable", "dresser", "drawer", "shelf")
_LIVING = ("sofa", "coffeetable", "armchair", "sidetable", "diningtable")
_BATHROOM = ("countertop", "sinkbasin", "toilet", "cabinet", "bathtubbasin")
_LINEN = ("countertop", "bathtubbasin", "cabinet", "toilet")
_DECORATION = ("shelf", "sidetable", "diningtable", "coffeetable", "dresser")

USUAL_PLACES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("mug", "cup"), ("countertop", "coffeemachine", "cabinet", "sinkbasin", "shelf", "desk")),
    **dict.fromkeys(("bowl", "plate", "glassbottle", "winebottle"), _KITCHENWARE),
    **dict.fromkeys(("fork", "spoon", "knife", "butterknife", "spatula", "ladle"), _CUTLERY),
    **dict.fromkeys(("apple", "tomato", "potato", "lettuce", "egg"), _FOOD),
    "bread": ("countertop", "diningtable", "fridge"),
    **dict.fromkeys(("pan", "pot", "kettle"), _COOKING),
    **dict.fromkeys(("saltshaker", "peppershaker"), _SPICES),
    "dishsponge": ("sinkbasin", "countertop", "cabinet", "drawer"),
    **dict.fromkeys(("pen", "pencil", "cd", "creditcard", "keychain", "cellphone", "watch", "alarmclock"), _SMALL),
    "book": ("desk", "bed", "shelf", "sidetable", "coffeetable"),
    "laptop": ("desk", "bed", "sofa", "coffeetable"),
    "pillow": ("bed", "sofa", "armchair"),
    "baseballbat": ("bed", "desk", "sidetable"),
    "basketball": ("bed", "dresser", "armchair", "desk"),
    "tennisracket": ("bed", "dresser", "desk"),
    **dict.fromkeys(("remotecontrol", "newspaper", "box"), _LIVING),
    **dict.fromkeys(("candle", "tissuebox", "soapbottle", "spraybottle", "soapbar"), _BATHROOM),
    **dict.fromkeys(("toiletpaper", "toiletpaperroll"), ("toiletpaperhanger", "toilet", "cabinet", "countertop")),
    **dict.fromkeys(("cloth", "scrubbrush", "plunger"), _LINEN),
    "handtowel": ("handtowelholder", "countertop", "sinkbasin"),
    "towel": ("towelholder", "bathtubbasin"),
    "papertowelroll": ("countertop", "diningtable", "cabinet"),
    **dict.fromkeys(("vase", "statue", "houseplant", "wateringcan"), _DECORATION),
    **dict.fromkeys(("desklamp", "floorlamp"), ("desk", "sidetable", "dresser", "shelf")),
}

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
