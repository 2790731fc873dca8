//! Rewritten requests: a request in another notation that is equivalent for a backend that uses the first value is
//! counted under exactly the keys of the plain request.

#![cfg(all(feature = "yaml", feature = "jwt"))]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod matching_support;

use std::path::Path;

use matching_support::charged;
use proptest::prelude::*;
use tollgate_policy::{CompiledPolicy, Request, parse};

/// Rules for each source that a client controls: alone, in a list, and in a condition.
const POLICY: &str = r#"version: 1
identity:
  client_ip: { trusted_proxies: [10.0.0.1] }
  api_key: { header: X-API-Key }
  session: { cookie: sid }
  app: { query: app }
  token: { bearer: true }
  user: { jwt: sub }
  strict: { jwt: sub, on_invalid: absent }
  client: { first: [user, api_key, session, app, client_ip] }
  tier: { by: client, map: { api_key=k1: pro }, default: free }
jwt: { algorithm: HS256, key_file: secret.key }
allow: { client: "api_key=internal*", api_key: staff }
deny: { api_key: [mallory, "bot*"] }
rules:
  - { name: per-ip, key: client_ip, limit: 5/min }
  - { name: per-key, key: api_key, limit: 5/min, overrides: { k1: 50/min, "k*": 7/min } }
  - { name: per-session, key: session, limit: 5/min }
  - { name: per-app, key: app, limit: 5/min }
  - { name: per-token, key: token, limit: 5/min }
  - { name: per-user, key: user, limit: 5/min }
  - { name: per-strict, key: strict, limit: 5/min }
  - { name: per-client, key: [client, path], tiers: { free: 5/min, pro: 50/min } }
  - { name: members, when: { identity: { api_key: true } }, key: client_ip, limit: 5/min, replaces: strangers }
  - { name: strangers, when: { identity: { api_key: false } }, key: client_ip, limit: 5/min }
  - { name: debug, when: { headers: { X-API-Key: "k*" } }, limit: 5/min }
  - { name: costly, key: client_ip, limit: 50/min, cost: { header: X-API-Key, max: 9 } }
"#;

fn compiled() -> CompiledPolicy {
    let loaded = parse(POLICY, "policy.yaml", Some(Path::new("tests/fixtures/good")));
    CompiledPolicy::new(&loaded.unwrap_or_else(|report| panic!("{report}")).policy).unwrap()
}

/// The values of a request, each once.
#[derive(Clone, Debug)]
struct Plain {
    api_key: Option<String>,
    session: Option<String>,
    app: Option<String>,
    /// The scheme and the token.
    authorization: Option<(String, String)>,
    forwarded_for: Option<String>,
}

#[derive(Clone, Debug)]
struct Written {
    target: String,
    lines: Vec<(String, String)>,
}

impl Plain {
    fn written(&self) -> Written {
        let mut lines = Vec::new();
        let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
        self.api_key.iter().for_each(|key| line("X-API-Key", key.clone()));
        self.session.iter().for_each(|session| line("Cookie", format!("sid={session}")));
        self.authorization.iter().for_each(|(scheme, token)| line("Authorization", format!("{scheme} {token}")));
        self.forwarded_for.iter().for_each(|address| line("X-Forwarded-For", address.clone()));
        let target = self.app.as_ref().map_or("/a".to_owned(), |app| format!("/a?app={app}"));
        Written { target, lines }
    }
}

/// Random choices from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn space(&mut self) -> &'static str {
        ["", " ", "\t", "  \t "][usize::try_from(self.roll(4)).unwrap()]
    }

    fn case(&mut self, text: &str) -> String {
        text.chars().map(|c| if self.one_in(2) { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }).collect()
    }

    /// Returns a value that no plain request has.
    fn fresh(&mut self) -> String {
        format!("fresh{}", self.roll(u64::MAX))
    }

    /// Returns a text that is equal once it is decoded.
    fn encoded(&mut self, text: &str) -> String {
        let mut encoded = String::new();
        for byte in text.bytes() {
            match self.roll(4) {
                0 => encoded.push_str(&format!("%{byte:02x}")),
                1 => encoded.push_str(&format!("%{byte:02X}")),
                _ => encoded.push(char::from(byte)),
            }
        }
        encoded
    }

    /// Returns a request that is equivalent for a backend that uses the first value.
    fn rewritten(&mut self, plain: &Plain) -> Written {
        let mut groups: Vec<Vec<(String, String)>> = Vec::new();
        if let Some(key) = &plain.api_key {
            let first = (self.case("X-API-Key"), format!("{}{key}{}", self.space(), self.space()));
            groups.push(self.repeated(first, Dice::fresh));
        }
        if let Some(session) = &plain.session {
            groups.push(self.cookies(session));
        }
        if let Some((scheme, token)) = &plain.authorization {
            let between = [" ", "\t", "  ", " \t "][usize::try_from(self.roll(4)).unwrap()];
            let mut value = format!("{}{between}{token}{}", self.case(scheme), self.space());
            if self.one_in(4) {
                value = format!("{value}, {} {}", self.case(scheme), self.fresh());
            }
            let first = (self.case("Authorization"), value);
            // Another test covers a token after another scheme.
            groups.push(self.repeated(first, |dice| format!("{} {}", dice.case(scheme), dice.fresh())));
        }
        if let Some(address) = &plain.forwarded_for {
            // This header is a list, whose last entry is the proxy's.
            groups.push(vec![
                (self.case("X-Forwarded-For"), self.fresh()),
                (self.case("X-Forwarded-For"), format!("198.51.100.7,{}{address}{}", self.space(), self.space())),
            ]);
        }
        groups.push(vec![("X-Other".to_owned(), self.fresh())]);
        Written { target: self.target(plain.app.as_deref()), lines: self.shuffled(groups) }
    }

    fn repeated(&mut self, first: (String, String), more: impl Fn(&mut Dice) -> String) -> Vec<(String, String)> {
        let name = first.0.clone();
        let mut lines = vec![first];
        while self.one_in(2) {
            let value = if self.one_in(4) { String::new() } else { more(self) };
            lines.push((self.case(&name), value));
        }
        lines
    }

    fn cookies(&mut self, session: &str) -> Vec<(String, String)> {
        let mut value = self.encoded(session);
        if self.one_in(3) {
            value = format!("\"{value}\"");
        }
        let mut pairs = vec![format!("sid{}={}{value}", self.space(), self.space())];
        while self.one_in(2) {
            let fresh = self.fresh();
            pairs.push(if self.one_in(2) { format!("sid={fresh}") } else { format!("other={fresh}") });
        }
        if self.one_in(2) {
            pairs.insert(0, format!("xsid={}", self.fresh()));
        }
        let mut lines = vec![String::new()];
        for pair in pairs {
            if self.one_in(3) {
                lines.push(pair);
            } else {
                let line = lines.last_mut().unwrap();
                *line = if line.is_empty() { pair } else { format!("{line};{}{pair}", self.space()) };
            }
        }
        lines.into_iter().map(|line| (self.case("Cookie"), line)).collect()
    }

    fn target(&mut self, app: Option<&str>) -> String {
        let mut pairs = Vec::new();
        if self.one_in(2) {
            pairs.push(format!("xapp={}", self.fresh()));
        }
        if let Some(app) = app {
            pairs.push(format!("{}={}", self.encoded("app"), self.encoded(app)));
            while self.one_in(2) {
                pairs.push(format!("{}={}", self.encoded("app"), self.fresh()));
            }
        }
        let fragment = if self.one_in(3) { format!("#?app={}", self.fresh()) } else { String::new() };
        if pairs.is_empty() { format!("/a{fragment}") } else { format!("/a?{}{fragment}", pairs.join("&")) }
    }

    /// Shuffles the lines. Lines of one name remain in their order.
    fn shuffled(&mut self, mut groups: Vec<Vec<(String, String)>>) -> Vec<(String, String)> {
        groups.iter_mut().for_each(|group| group.reverse());
        let mut lines = Vec::new();
        while !groups.is_empty() {
            let at = usize::try_from(self.roll(groups.len() as u64)).unwrap();
            lines.extend(groups[at].pop());
            if groups[at].is_empty() {
                groups.remove(at);
            }
        }
        lines
    }
}

fn matched(compiled: &CompiledPolicy, written: &Written) -> (tollgate_policy::Access, Vec<String>) {
    let peer = "10.0.0.1".parse().unwrap();
    let request = Request {
        method: "GET",
        target: &written.target,
        headers: &written.lines,
        unix_time_s: Some(1_000_000_000),
        ..Request::from_peer(Some(peer))
    };
    (compiled.match_request(&request).access, charged(compiled, &request))
}

/// Generates values without surrounding spaces and without `"`, `;`, `&` and `#`, which are delimiters.
fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9._~-]{1,12}", "[ -~&&[^\"%+;,&#?= ]]{1,40}", Just("203.0.113.9".to_owned())]
}

fn api_key() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 8] = ["k1", "k2", "7", "staff", "internal-1", "mallory", "bot-9", "203.0.113.9"];
    prop_oneof![value(), "[ -~&&[^ ]]{1,20}", prop::sample::select(&KNOWN[..]).prop_map(str::to_owned)]
}

/// Generates schemes and tokens. One token is signed with the key of the fixtures, so it is valid.
fn authorization() -> impl Strategy<Value = (String, String)> {
    let token = prop_oneof!["[a-zA-Z0-9._~+/-]{1,40}={0,2}", Just("x".repeat(17 << 10)), Just(signed())];
    prop_oneof![
        4 => token.prop_map(|token| ("Bearer".to_owned(), token)),
        1 => Just(("Basic".to_owned(), "YTpi".to_owned())),
    ]
}

fn signed() -> String {
    use jsonwebtoken::{EncodingKey, Header, encode};
    let secret = std::fs::read("tests/fixtures/good/secret.key").unwrap();
    let key = EncodingKey::from_secret(secret.trim_ascii_end());
    encode(&Header::default(), &serde_json::json!({"sub": "ann"}), &key).unwrap()
}

fn plain() -> impl Strategy<Value = Plain> {
    let address = prop_oneof![Just("203.0.113.9".to_owned()), Just("2001:db8::1".to_owned())];
    let (api_key, session, app) = (prop::option::of(api_key()), prop::option::of(value()), prop::option::of(value()));
    (api_key, session, app, prop::option::of(authorization()), prop::option::of(address)).prop_map(
        |(api_key, session, app, authorization, forwarded_for)| Plain {
            api_key,
            session,
            app,
            authorization,
            forwarded_for,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rewritten_request_has_the_keys_of_the_plain_one(plain in plain(), seed in any::<u64>()) {
        thread_local!(static COMPILED: CompiledPolicy = compiled());
        COMPILED.with(|compiled| {
            let expected = matched(compiled, &plain.written());
            let mut dice = Dice(seed);
            for _ in 0..4 {
                let written = dice.rewritten(&plain);
                prop_assert_eq!(&matched(compiled, &written), &expected, "{:?}", written);
            }
            Ok(())
        })?;
    }

    /// Backends differ in how they treat a value after an empty one, so it is counted under the address and not under
    /// a fresh key, and no rule is avoided.
    #[test]
    fn value_after_an_empty_one_creates_no_key(name in 0_usize..5, fresh in "[a-z]{1,20}") {
        thread_local!(static COMPILED: CompiledPolicy = compiled());
        let (target, lines) = match name {
            0 => ("/a".to_owned(), vec![("X-API-Key", String::new()), ("x-api-key", fresh)]),
            1 => ("/a".to_owned(), vec![("Cookie", "sid=".to_owned()), ("Cookie", format!("sid={fresh}"))]),
            2 => (format!("/a?app=&app={fresh}"), Vec::new()),
            3 => ("/a".to_owned(), vec![("Authorization", "Basic a".to_owned()), ("Authorization", format!("Bearer {fresh}"))]),
            _ => ("/a".to_owned(), vec![("Authorization", format!("Basic a, Bearer {fresh}"))]),
        };
        let lines = lines.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let (_, keys) = COMPILED.with(|compiled| matched(compiled, &Written { target, lines }));
        let rule = ["per-key", "per-session", "per-app", "per-token", "per-token"][name];
        let expected = format!(r"{rule} \unusable:10.0.0.1");
        prop_assert!(keys.contains(&expected), "{keys:?}");
        prop_assert!(keys.iter().any(|key| key.starts_with("per-client ") && key.contains(r"=\unusable:10.0.0.1|/a")), "{keys:?}");
    }
}

/// Guards against a property that is vacuously true.
#[test]
fn plain_request_matches_the_rules() {
    let compiled = compiled();
    let plain = Plain {
        api_key: Some("k1".into()),
        session: Some("s1".into()),
        app: Some("a1".into()),
        authorization: Some(("Bearer".into(), signed())),
        forwarded_for: Some("203.0.113.9".into()),
    };
    let (_, keys) = matched(&compiled, &plain.written());
    // Credentials are hashed.
    let hashed = |rule: &str| keys.iter().find(|key| key.starts_with(&format!("{rule} hmac:"))).unwrap().clone();
    let (session, token) = (hashed("per-session"), hashed("per-token"));
    let expected = [
        "per-ip 203.0.113.9",
        "per-key k1",
        &session,
        "per-app a1",
        &token,
        "per-user ann",
        "per-strict ann",
        "per-client user=ann|/a",
        "members 203.0.113.9",
        "debug ",
        "costly 203.0.113.9",
    ];
    assert_eq!(keys, expected);
}
