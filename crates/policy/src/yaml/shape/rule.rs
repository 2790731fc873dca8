use crate::check::members::GRANTS;

use super::{Field, Kind, Shape, defaulted, field, required, shape};

/// The most that fits anywhere: 10^12.
const MOST: u64 = tollgate_core::MAX_AMOUNT;
const AMOUNT: Kind = Kind::Number { min: 1, max: MOST };
const UNLIMITED: Kind = Kind::Words(&["unlimited"]);
const TOKEN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// How much is granted: `100/s`, several at once, or `unlimited`.
const GRANT: Kind = Kind::AnyOf(&[UNLIMITED, Kind::Rate, Kind::List(&Kind::Rate, 1)]);
/// The same for a rule of concurrency.
const GRANT_OR_PERMITS: Kind = Kind::AnyOf(&[UNLIMITED, Kind::Rate, Kind::List(&Kind::Rate, 1), AMOUNT]);
const ASKED: Kind = Kind::AnyOf(&[Kind::Bool, Kind::Text, Kind::List(&Kind::Text, 1), Kind::Object(&CONDITION)]);

pub(in crate::yaml) const ALGORITHMS: &[&str] =
    &["token-bucket", "leaky-bucket", "fixed-window", "sliding-window-log", "sliding-window-counter"];
pub(in crate::yaml) const ON_FAILURE: &[&str] = &["open", "closed", "local"];

pub(in crate::yaml) static RULE: Shape = Shape {
    one_of: GRANTS,
    ..shape(
        "rule",
        "One limit: for these requests, counted by this key, so much; or requests that are denied.",
        RULE_FIELDS,
    )
};

const RULE_FIELDS: &[Field] = &[
    required(
        "name",
        Kind::Pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
        "Its name in answers, metrics and logs; no two rules share one.",
    ),
    field("when", Kind::Object(&WHEN), "Which requests it is for; all of them where it is absent."),
    field(
        "key",
        Kind::OneOrMore(&Kind::Text),
        "The identities by which it counts; one counter for everybody where it is absent.",
    ),
    field("limit", GRANT, "How much is granted: a rate, several that hold at once, or `unlimited`."),
    field("tiers", Kind::Map(&GRANT), "How much is granted to each tier."),
    field("concurrency", Kind::AnyOf(&CONCURRENCY), "How many requests may be under way at once; also by tier."),
    field("unlimited", Kind::True, "No limit: the rule only counts, unless it has `overrides`."),
    field("deny", Kind::True, "The requests that it is for are denied (403); nothing is counted, and there is no key."),
    defaulted("algorithm", Kind::Words(ALGORITHMS), "How the limit is counted.", r#""token-bucket""#),
    field("queue", Kind::Object(&QUEUE), "Lets requests wait for their turn; only with leaky-bucket."),
    field(
        "max_debt",
        Kind::Number { min: 0, max: MOST },
        "How much a key may owe when costs are settled above their estimate; as much as its limit holds where it is absent.",
    ),
    field("cost", Kind::AnyOf(&COST), "What a request costs; what the caller says, else 1, where it is absent."),
    field(
        "on_limit",
        Kind::List(&STEP, 1),
        "What happens beyond the limit, step by step; a plain refusal where it is absent.",
    ),
    defaulted("shadow", Kind::Bool, "Counted and reported, never refusing.", "false"),
    defaulted("publish", Kind::Bool, "Whether clients are told of it.", "true"),
    field("overrides", Kind::AnyOf(&OVERRIDES), "Other grants for some keys."),
    field(
        "on_failure",
        Kind::Words(ON_FAILURE),
        "What happens when the store fails; what the store says where it is absent.",
    ),
    field("replaces", Kind::OneOrMore(&Kind::Text), "The names of rules that do not apply where this one does."),
];

static CONCURRENCY: [Kind; 3] = [AMOUNT, Kind::Object(&PERMITS), Kind::Map(&Kind::AnyOf(&[AMOUNT, UNLIMITED]))];
static COST: [Kind; 4] = [AMOUNT, Kind::Object(&COST_HEADER), Kind::Object(&COST_METHOD), Kind::Object(&COST_ESTIMATE)];
static STEP: Kind = Kind::AnyOf(&STEPS);
static STEPS: [Kind; 3] = [Kind::Object(&STEP_FIRST), Kind::Object(&STEP_THEN), Kind::Object(&STEP_AFTER)];
static OVERRIDES: [Kind; 2] = [Kind::Map(&GRANT_OR_PERMITS), Kind::List(&ONE_OVERRIDE, 1)];
static ONE_OVERRIDE: Kind = Kind::Object(&OVERRIDE);

pub(in crate::yaml) static WHEN: Shape = shape(
    "when",
    "Which requests a rule is for. All that is there must hold.",
    &[
        field("method", Kind::OneOrMore(&Kind::Pattern(TOKEN)), "One of these methods; GET includes HEAD."),
        field("host", Kind::OneOrMore(&Kind::Text), "One of these hosts; `*.example.com` is every host below it."),
        field(
            "path",
            Kind::OneOrMore(&Kind::Pattern("^/")),
            "One of these paths; a segment `*`, `{name}` or `:name` stands for any one, `/*` at the end for everything below.",
        ),
        field(
            "headers",
            Kind::Map(&ASKED),
            "Request headers: true for present, false for absent, texts with `*`, or all but some.",
        ),
        field(
            "identity",
            Kind::Map(&ASKED),
            "Identities: true for present, false for absent, texts with `*`, or all but some.",
        ),
        field(
            "network",
            Kind::AnyOf(&[INTERNAL, Kind::OneOrMore(&Kind::Network), Kind::Object(&NETWORK)]),
            "From where the client comes: `internal` (private, loopback, link-local), networks, or all but these.",
        ),
        field("domain", Kind::OneOrMore(&Kind::Text), "A gateway's descriptor of one of these domains."),
        field(
            "entries",
            Kind::Words(&["exact"]),
            "`exact`: a gateway's descriptor with exactly the entries that the rule names, in `key` and in `when`.",
        ),
    ],
);

const INTERNAL: Kind = Kind::Words(&["internal"]);

pub(in crate::yaml) static NETWORK: Shape = shape(
    "network",
    "A client from elsewhere, or whose address is not known.",
    &[required(
        "not",
        Kind::AnyOf(&[INTERNAL, Kind::OneOrMore(&Kind::Network)]),
        "From none of these: `internal`, or networks.",
    )],
);

pub(in crate::yaml) static CONDITION: Shape = shape(
    "condition",
    "A value that is there, and is not one of some.",
    &[
        field("is", Kind::OneOrMore(&Kind::Text), "One of these texts with `*`; any where it is absent."),
        required("not", Kind::OneOrMore(&Kind::Text), "None of these texts with `*`."),
    ],
);

pub(in crate::yaml) static QUEUE: Shape = shape(
    "queue",
    "How a leaky bucket lets requests wait.",
    &[
        required(
            "size",
            Kind::Number { min: 1, max: MOST - 1 },
            "How many requests it holds: those that wait, and the one that departed last.",
        ),
        field("max_wait", Kind::Duration, "The longest that one may wait."),
    ],
);

pub(in crate::yaml) static PERMITS: Shape = shape(
    "permits",
    "How many requests may be under way at once.",
    &[
        required("permits", AMOUNT, "So many."),
        defaulted("lease", Kind::Duration, "Whoever does not let go within this time is taken for dead.", r#""1min""#),
    ],
);

pub(in crate::yaml) static OVERRIDE: Shape = shape(
    "override",
    "Another grant for the keys that are meant.",
    &[
        required(
            "key",
            Kind::OneOrMore(&Kind::Text),
            "One pattern for each part of the rule's key; `*` stands for anything.",
        ),
        required("limit", GRANT_OR_PERMITS, "What they get instead; for a rule of concurrency, how many at once."),
    ],
);

const COST_MAX: Field = field("max", AMOUNT, "The most that it counts.");

pub(in crate::yaml) static COST_HEADER: Shape = shape(
    "cost_header",
    "A cost that a request header tells.",
    &[
        required("header", Kind::Pattern(TOKEN), "The request header with the number."),
        COST_MAX,
        defaulted("default", AMOUNT, "Where the header is absent or no number.", "1"),
    ],
);

pub(in crate::yaml) static COST_METHOD: Shape = shape(
    "cost_method",
    "A cost by method.",
    &[
        required("method", Kind::Map(&AMOUNT), "Methods and their costs."),
        defaulted("default", AMOUNT, "For every other method.", "1"),
    ],
);

pub(in crate::yaml) static COST_ESTIMATE: Shape = shape(
    "cost_estimate",
    "A cost that is known only after the response: a guess, settled later.",
    &[
        required("estimate", AMOUNT, "What is charged at first."),
        field("settle", Kind::Pattern(TOKEN), "The response header that tells the true cost."),
        COST_MAX,
    ],
);

pub(in crate::yaml) static STEP_FIRST: Shape = shape(
    "step_first",
    "The first requests beyond the limit.",
    &[required("first", AMOUNT, "So many."), required("action", Kind::Words(&["warn"]), "They pass, with a warning.")],
);

pub(in crate::yaml) static STEP_THEN: Shape =
    shape("step_then", "Those after them.", &[required("then", Kind::Words(&["reject"]), "They are refused.")]);

pub(in crate::yaml) static STEP_AFTER: Shape = shape(
    "step_after",
    "Those who go on.",
    &[
        required(
            "after",
            Kind::AnyOf(&[AMOUNT, Kind::Pattern("^[0-9][0-9_]* *in .+$")]),
            "After so many violations, as in `20 in 10min`; without a time, within the rule's period.",
        ),
        required("action", Kind::Pattern("^block .+$"), "They are turned away for a time, as in `block 15min`."),
    ],
);
