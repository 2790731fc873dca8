use super::rule::ON_FAILURE;
use super::{Kind, Shape, defaulted, field, required, shape};

pub(in crate::yaml) static PATHS: Shape = shape(
    "paths",
    "How paths are made comparable, besides what is always done.",
    &[
        defaulted("trailing_slash", Kind::Words(&["ignore", "keep"]), "Whether `/login/` is `/login`.", r#""ignore""#),
        defaulted("ignore_case", Kind::Bool, "Whether `/Login` is `/login`.", "false"),
    ],
);

pub(in crate::yaml) static STORE: Shape = Shape {
    one_of: &["memory", "redis"],
    ..shape(
        "store",
        "Where counters live.",
        &[
            field("memory", Kind::Object(&MEMORY), "In this process."),
            field("redis", Kind::Object(&REDIS), "In Redis, Valkey or a cluster of them."),
        ],
    )
};

pub(in crate::yaml) static MEMORY: Shape = shape(
    "memory",
    "How much memory counters may take, and whether they outlive the process.",
    &[
        defaulted("entries", Kind::Number { min: 1, max: MAX_ENTRIES }, "So many keys.", "1000000"),
        defaulted(
            "when_full",
            Kind::Words(&["evict", "refuse"]),
            "What happens to a new key when all of them are live.",
            r#""evict""#,
        ),
        field("snapshot", Kind::Text, "The file they are written to, so that a restart does not refill limits."),
        defaulted("every", Kind::Duration, "How often the snapshot is written.", r#""30s""#),
    ],
);

/// 16 bytes each: 1 TiB.
pub(in crate::yaml) const MAX_ENTRIES: u64 = 1 << 36;

pub(in crate::yaml) static REDIS: Shape = Shape {
    refused: &[("password", "name an environment variable with `password_env`, or a file with `password_file`")],
    ..shape(
        "redis",
        "How Redis is reached, and what happens when it is not.",
        &[
            required("nodes", Kind::OneOrMore(&Kind::Text), "`host:port` of each."),
            defaulted(
                "mode",
                Kind::Words(&["standalone", "sentinel", "cluster"]),
                "What they are to each other.",
                r#""standalone""#,
            ),
            defaulted("deadline", Kind::Duration, "How long a check may take.", r#""20ms""#),
            defaulted("on_failure", Kind::Words(ON_FAILURE), "What happens to a check that fails.", r#""local""#),
            defaulted(
                "fallback_share",
                Kind::Pattern("^[0-9]+/[0-9]+$"),
                "Which share of each limit one instance grants on its own.",
                r#""1/2""#,
            ),
            defaulted("prefix", Kind::Text, "What all keys begin with.", r#""tollgate:""#),
            defaulted("database", Kind::Number { min: 0, max: 65_535 }, "The number of the database.", "0"),
            field("username", Kind::Text, "The user of the access list."),
            field("password_env", Kind::Text, "The environment variable with the password."),
            field("password_file", Kind::Text, "The file with the password."),
            defaulted("tls", Kind::Bool, "Whether connections are encrypted.", "false"),
            field(
                "tls_ca",
                Kind::Text,
                "The file with the certificates of the authorities that are believed, instead of the system's.",
            ),
            field("sentinel_primary", Kind::Text, "The name of the primary that the sentinels watch."),
        ],
    )
};
