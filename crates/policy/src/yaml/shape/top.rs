use super::{Field, IDENTITIES, JWT, Kind, PATHS, RULE, SECRETS, STORE, Shape, defaulted, field, required, shape};

/// The whole file.
pub(in crate::yaml) static POLICY: Shape =
    shape("policy", "A policy of tollgate: who is who, and which limits hold for whom.", FIELDS);

const FIELDS: &[Field] = &[
    required("version", Kind::Number { min: 1, max: 1 }, "The version of this language, always 1."),
    field("identity", Kind::Object(&IDENTITIES), "Who is who: what clients are known by."),
    field("jwt", Kind::Object(&JWT), "With what signed tokens are verified, for identities from their claims."),
    field(
        "secrets",
        Kind::Object(&SECRETS),
        "The key with which the values of secret identities are hashed, the same for all instances.",
    ),
    field("deny", Kind::Object(&ACCESS), "Who is turned away before any rule."),
    field("allow", Kind::Object(&ACCESS), "Who passes without meeting any rule; `deny` comes first."),
    field("rules", Kind::List(&ONE_RULE, 0), "The limits. A request must pass all that apply to it."),
    field("paths", Kind::Object(&PATHS), "How paths are made comparable."),
    defaulted(
        "headers",
        Kind::List(&Kind::Words(&["ietf", "x-ratelimit"]), 0),
        "Which response fields tell clients about their limits.",
        r#"["ietf", "x-ratelimit"]"#,
    ),
    defaulted(
        "reset",
        Kind::Words(&["epoch", "delta"]),
        "Whether X-RateLimit-Reset counts seconds since 1970 or from now.",
        r#""epoch""#,
    ),
    field("jitter", Kind::Duration, "Up to how much later than necessary refused clients are told to come back."),
    defaulted("store", Kind::AnyOf(&STORES), "Where counters live.", r#""memory""#),
];

static ONE_RULE: Kind = Kind::Object(&RULE);
static STORES: [Kind; 2] = [Kind::Words(&["memory"]), Kind::Object(&STORE)];

/// Of `deny` and `allow`.
pub(in crate::yaml) static ACCESS: Shape = Shape {
    others: Some(Kind::OneOrMore(&Kind::Text)),
    ..shape(
        "access",
        "Clients by address, or by the values of other identities, in which `*` stands for anything.",
        &[field("client_ip", Kind::OneOrMore(&Kind::Network), "Addresses and networks.")],
    )
};
