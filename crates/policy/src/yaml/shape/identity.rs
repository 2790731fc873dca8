use super::{Field, Kind, Shape, defaulted, field, required, shape};

const NAME: &str = "^[a-z][a-z0-9_]{0,63}$";
const TOKEN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// Of `identity`.
pub(in crate::yaml) static IDENTITIES: Shape = Shape {
    others: Some(Kind::Object(&IDENTITY)),
    ..shape(
        "identities",
        "What clients are known by. Besides these, client_ip, method, host, path and route always exist.",
        &[
            field(
                "client_ip",
                Kind::Object(&CLIENT_IP),
                "How a client's address is found, and what part of it counts.",
            ),
            field("tier", Kind::Object(&TIER), "Which tier a client belongs to; it chooses among a rule's `tiers`."),
        ],
    )
};

pub(in crate::yaml) static CLIENT_IP: Shape = shape(
    "client_ip",
    "How a client's address is found, and what part of it counts.",
    &[
        defaulted(
            "trusted_proxies",
            Kind::AnyOf(&[Kind::Network, Kind::List(&Kind::Network, 0)]),
            "Who is believed when they say for whom they speak.",
            "[]",
        ),
        defaulted(
            "header",
            Kind::Words(&["X-Forwarded-For", "Forwarded"]),
            "The field in which trusted proxies say it.",
            r#""X-Forwarded-For""#,
        ),
        defaulted(
            "ipv6_prefix",
            Kind::Number { min: 1, max: 128 },
            "The bits of an IPv6 address that tell clients apart.",
            "64",
        ),
        defaulted(
            "ipv4_prefix",
            Kind::Number { min: 1, max: 32 },
            "The bits of an IPv4 address that tell clients apart.",
            "32",
        ),
    ],
);

const HEADER: Field = field("header", Kind::Pattern(TOKEN), "From this request header.");
const COOKIE: Field = field("cookie", Kind::Pattern(TOKEN), "From this cookie.");
const PATH_SEGMENT: Field =
    field("path_segment", Kind::Number { min: 1, max: 64 }, "From this segment of the path, counted from 1.");
const QUERY: Field = field("query", Kind::Text, "From this query parameter.");
const JWT_CLAIM: Field =
    field("jwt", Kind::Text, "From this claim of the token in `Authorization: Bearer`, verified as `jwt` says.");
const VALUE: Field = field("value", Kind::Text, "The same for everybody.");
const TRUSTED: Field =
    defaulted("trusted", Kind::Bool, "Somebody in front makes sure that clients cannot choose it freely.", "false");

/// An identity that the file declares.
pub(in crate::yaml) static IDENTITY: Shape = Shape {
    one_of: &["peer", "header", "cookie", "path_segment", "query", "bearer", "jwt", "value", "first", "given"],
    ..shape(
        "identity",
        "Where the value of an identity is found.",
        &[
            field("peer", Kind::True, "The address at the other end of the connection, whoever that speaks for."),
            HEADER,
            COOKIE,
            PATH_SEGMENT,
            QUERY,
            field("bearer", Kind::True, "The token of `Authorization: Bearer`."),
            JWT_CLAIM,
            VALUE,
            field("first", Kind::OneOrMore(&Kind::Pattern(NAME)), "The first of these identities that is present."),
            field("given", Kind::True, "What the caller of a limiter or of the service says it is."),
            TRUSTED,
            defaulted(
                "on_invalid",
                Kind::Words(&["count", "refuse", "absent"]),
                "A token that is present and cannot be used: counted under the client's address, refused, or as if it were absent.",
                r#""count""#,
            ),
        ],
    )
};

pub(in crate::yaml) static TIER: Shape = Shape {
    one_of: &["header", "cookie", "path_segment", "query", "jwt", "value", "by"],
    ..shape(
        "tier",
        "Which tier a client belongs to.",
        &[
            HEADER,
            COOKIE,
            PATH_SEGMENT,
            QUERY,
            JWT_CLAIM,
            VALUE,
            field(
                "by",
                Kind::Pattern(NAME),
                "The tier is written down beside the value of this identity: in `map` or `file`.",
            ),
            field("map", Kind::Map(&Kind::Text), "Values of the identity, and their tiers."),
            field("file", Kind::Text, "A file with a value and its tier on each line."),
            required("default", Kind::Text, "The tier of everybody else."),
            TRUSTED,
        ],
    )
};

pub(in crate::yaml) const JWT_ALGORITHMS: &[&str] =
    &["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA"];

pub(in crate::yaml) static JWT: Shape = Shape {
    one_of: &["key_env", "key_file"],
    refused: &[("key", "name an environment variable with `key_env`, or a file with `key_file`")],
    ..shape(
        "jwt",
        "With what the signature of a token is verified.",
        &[
            required("algorithm", Kind::Words(JWT_ALGORITHMS), "The only algorithm that is accepted."),
            field("key_env", Kind::Text, "The environment variable with the shared secret or the public key in PEM."),
            field("key_file", Kind::Text, "The file with the shared secret or the public key in PEM."),
            field("issuer", Kind::Text, "Who must have issued the token (`iss`)."),
            field("audience", Kind::Text, "For whom it must have been issued (`aud`)."),
        ],
    )
};
