"""The vocabulary of the seeded data sets: parts of column names and words that fill categories."""

from itertools import product

# A name is one part of each level, joined by underscores: four that say what is measured, four that say how.
BRANCHES = (
    ("payments", "marketing", "logistics", "onboarding", "compliance", "advertising", "inventory", "messaging"),
    ("customer", "merchant", "household", "device", "session", "shipment", "campaign", "warehouse", "subscription"),
    ("purchase", "refund", "impression", "click_through", "chargeback", "page_view", "login_attempt", "delivery",
     "search_query", "cart_addition", "support_ticket", "price_change", "review", "coupon_redemption"),
    ("amount", "count", "duration_seconds", "distinct_categories", "ratio_to_baseline", "days_since_last", "latency_ms",
     "quantity", "score", "conversion_rate", "weekday_entropy", "share_of_total"),
)  # fmt: skip
LEAVES = (
    ("sum", "mean", "median", "p95", "stddev", "minimum", "maximum", "latest"),
    ("last_01_days", "last_07_days", "last_14_days", "last_30_days", "last_90_days", "last_365_days"),
    ("all_channels", "mobile_app", "web_desktop", "call_centre", "partner_api", "in_store"),
    ("raw", "scaled", "winsorized", "log", "imputed"),
)

_GRADES = (
    "NEW",
    "LOW",
    "MEDIUM",
    "HIGH",
    "GOLD",
    "SILVER",
    "BRONZE",
    "ACTIVE",
    "DORMANT",
    "PENDING",
    "BLOCKED",
    "TRIAL",
)
_PLACES = ("north", "south", "east", "west", "central", "coastal", "urban", "rural", "island", "border", "airport")
_THINGS = (
    "retail",
    "wholesale",
    "online",
    "partner",
    "internal",
    "export",
    "return",
    "loyalty",
    "gift",
    "bulk",
    "sample",
)

CATEGORIES = [f"{grade}_{place}_{thing}" for grade, place, thing in product(_GRADES, _PLACES, _THINGS)]
