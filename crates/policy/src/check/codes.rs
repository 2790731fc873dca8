//! The codes of all errors and warnings about a policy.
//!
//! Each code has a heading in `docs/policy-messages.md` and a fixture that causes it. A test compares the three.

macro_rules! codes {
    ($(#[$about:meta])* $list:ident { $($name:ident = $code:literal,)* }) => {
        $(#[allow(dead_code, reason = "some are used by the YAML reader only")] pub(crate) const $name: &str = $code;)*
        $(#[$about])*
        pub const $list: &[&str] = &[$($code),*];
    };
}

codes! {
    /// The codes of errors. A policy with an error is not loaded.
    ERROR_CODES {
        // The file as YAML.
        SYNTAX = "syntax",
        FILE_TOO_LARGE = "file-too-large",
        TOO_DEEP = "too-deep",
        TOO_MANY_VALUES = "too-many-values",
        SEVERAL_DOCUMENTS = "several-documents",
        EMPTY_FILE = "empty-file",
        DUPLICATE_MEMBER = "duplicate-member",
        MERGE_KEY = "merge-key",
        TAG = "tag",
        BAD_KEY = "bad-key",
        // Single members.
        UNKNOWN_MEMBER = "unknown-member",
        MISSING_MEMBER = "missing-member",
        MISPLACED_MEMBER = "misplaced-member",
        CHOOSE_ONE = "choose-one",
        WRONG_TYPE = "wrong-type",
        UNKNOWN_WORD = "unknown-word",
        UNSUPPORTED_VERSION = "unsupported-version",
        OUT_OF_RANGE = "out-of-range",
        EMPTY_LIST = "empty-list",
        BAD_RATE = "bad-rate",
        BAD_DURATION = "bad-duration",
        BAD_QUOTA = "bad-quota",
        BAD_NETWORK = "bad-network",
        BAD_SHARE = "bad-share",
        BAD_STEP = "bad-step",
        UNREADABLE_FILE = "unreadable-file",
        BAD_TIER_FILE = "bad-tier-file",
        BAD_JWKS = "bad-jwks",
        BAD_PUBLIC_KEY = "bad-public-key",
        BAD_CERTIFICATE = "bad-certificate",
        MISSING_SECRET = "missing-secret",
        SECRET_IN_FILE = "secret-in-file",
        // The policy as a whole. A policy from the builder can have these too.
        BAD_NAME = "bad-name",
        RESERVED_NAME = "reserved-name",
        DUPLICATE_NAME = "duplicate-name",
        UNKNOWN_IDENTITY = "unknown-identity",
        UNKNOWN_RULE = "unknown-rule",
        UNKNOWN_WARNING = "unknown-warning",
        UNKNOWN_BUDGET = "unknown-budget",
        CIRCULAR_FIRST = "circular-first",
        CIRCULAR_TIER = "circular-tier",
        VALUE_WITHOUT_IDENTITY = "value-without-identity",
        TIERS_WITHOUT_TIER = "tiers-without-tier",
        DEFAULT_TIER_MISSING = "default-tier-missing",
        JWT_WITHOUT_KEY = "jwt-without-key",
        JWT_NOT_BUILT = "jwt-not-built",
        SHORT_SECRET = "short-secret",
        OVERRIDE_PARTS = "override-parts",
        COST_NEVER_FITS = "cost-never-fits",
        TOO_LARGE_FOR_STORE = "too-large-for-store",
        EQUAL_PERIODS = "equal-periods",
        BAD_TEXT = "bad-text",
        BAD_HEADER_NAME = "bad-header-name",
        BAD_METHOD = "bad-method",
        BAD_HOST = "bad-host",
        BAD_PATH = "bad-path",
        BAD_NODE = "bad-node",
        BAD_STORE = "bad-store",
        MISSING_REGIONS = "missing-regions",
        UNKNOWN_REGION = "unknown-region",
        NOT_REGIONAL = "not-regional",
        SMALL_REGION_SHARE = "small-region-share",
        COST_ABOVE_SHARE = "cost-above-share",
    }
}

codes! {
    /// The codes of warnings. A policy with warnings is loaded.
    WARNING_CODES {
        NO_RULES = "no-rules",
        ONLY_SHADOW = "only-shadow",
        LIMITS_CAN_BE_AVOIDED = "limits-can-be-avoided",
        NEVER_APPLIES = "never-applies",
        UNKNOWN_METHOD = "unknown-method",
        UNLIMITED_FOR_ALL = "unlimited-for-all",
        DENIES_EVERYTHING = "denies-everything",
        ABSENT_NOT_DENIED = "absent-not-denied",
        COST_ABOVE_LIMIT = "cost-above-limit",
        COST_FROM_CLIENT = "cost-from-client",
        COST_WITHOUT_MAX = "cost-without-max",
        FIXED_WINDOW_ON_LOGIN = "fixed-window-on-login",
        LARGE_LOG = "large-log",
        QUEUE_LONGER_THAN_WAIT = "queue-longer-than-wait",
        WARNS_ABOVE_LIMIT = "warns-above-limit",
        UNUSED_TIER = "unused-tier",
        UNTRUSTED_IDENTITY = "untrusted-identity",
        UNTRUSTED_TIER = "untrusted-tier",
        ADDRESS_FROM_HEADER = "address-from-header",
        HEADER_WITHOUT_PROXIES = "header-without-proxies",
        PROXIES_EVERYWHERE = "proxies-everywhere",
        LONG_IPV6_PREFIX = "long-ipv6-prefix",
        ALLOW_COVERS_PROXIES = "allow-covers-proxies",
        DENY_AND_ALLOW = "deny-and-allow",
        RARE_SNAPSHOTS = "rare-snapshots",
        MISSING_PASSWORD = "missing-password",
        SHORT_JWT_SECRET = "short-jwt-secret",
        SECRET_WITHOUT_KEY = "secret-without-key",
        UNUSED_ACCEPT = "unused-accept",
        UNUSED_BUDGET = "unused-budget",
        UNUSED_REGIONS = "unused-regions",
    }
}

codes! {
    /// The codes of notes: facts about a valid policy.
    NOTE_CODES {
        CONCURRENCY_ELSEWHERE = "concurrency-elsewhere",
        STAYS_EXACT = "stays-exact",
        LEASED_IN_MEMORY = "leased-in-memory",
        REGIONAL_IN_MEMORY = "regional-in-memory",
    }
}

/// The codes of errors and warnings about secrets that are notes where secrets may be missing, as in `tollgate validate`.
pub const SECRET_CODES: &[&str] = &[MISSING_SECRET, MISSING_PASSWORD];
