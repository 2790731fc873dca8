//! The compiled policy against a model: a simple matcher that checks every condition of every rule and shares no code
//! with the compiled policy.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod matching_support;

use std::net::IpAddr;

use ipnet::IpNet;
use matching_support::{compile, header, identity, limited, patterns, rule, strings};
use proptest::prelude::*;
use tollgate_core::Quota;
use tollgate_policy::model::{
    AccessList, Allowance, ClientIp, Condition, CostSource, Grant, IdentitySource, Networks, Override, Policy, Rule,
    TextPattern, Tier, TierSource, When,
};
use tollgate_policy::{Access, CompiledPolicy, Descriptor, Request, RuleOutcome};

/// Small alphabets, so that requests often match rules.
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "HEAD"];
const HOSTS: [&str; 4] = ["a.com", "x.a.com", "y.x.a.com", "b.com"];
const HOST_PATTERNS: [&str; 5] = ["a.com", "*.a.com", "*.x.a.com", "b.com", "*.com"];
const PATHS: [&str; 12] =
    ["/", "/a", "/a/", "/a/b", "//a/b", "/a/./b", "/%61/b/c", "/a/x/../b/c", "/b", "/b/a/c?x=1", "/c/b/c/d", "b/b"];
const PATH_PATTERNS: [&str; 12] =
    ["/", "/*", "/a", "/a/*", "/a/b", "/a/*/c", "/*/b", "/b/*", "/*/b/*", "/c/b/c/d", "/a/{name}", "/:first/b/c"];
const VALUES: [&str; 4] = ["1", "12", "2", "k=1"];
const VALUE_PATTERNS: [&str; 6] = ["1", "1*", "*2", "2", "*", "key=1"];
/// Patterns for a list of identities: each names the identity that it is for.
const LIST_PATTERNS: [&str; 6] = ["key=1", "user=1*", "key=*2", "user=2", "*", "client=1"];
const PEERS: [&str; 7] = [
    "10.0.0.1",
    "192.0.2.1",
    "192.0.2.77",
    "2001:db8::1",
    "::ffff:10.0.0.1",
    // These embed 192.0.2.1 and 10.0.0.1.
    "64:ff9b::c000:201",
    "2002:a00:1::1",
];
const FORWARDED: [&str; 4] = ["192.0.2.1", "192.0.2.77, 10.9.9.9", "garbage", "6.6.6.6, 2001:db8::1"];
const NETWORKS: [&str; 4] = ["10.0.0.0/8", "192.0.2.0/26", "192.0.2.77/32", "2001:db8::/32"];
const DOMAINS: [&str; 3] = ["edge", "mesh", "Edge"];
const ENTRIES: [&str; 7] = ["remote_address", "client_ip", "user", "X-User", "x-key", "path", "method"];
const TIERS: [&str; 3] = ["free", "pro", "gold"];
const KEYS: [&str; 7] = ["client_ip", "user", "client", "route", "path", "tier", "method"];

/// The prefix of the address in a key whose value is unusable.
const UNUSABLE: &str = r"\unusable:";

/// Random choices from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % sides as u64) as usize
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among[self.roll(among.len())]
    }

    fn some<'a>(&mut self, among: &[&'a str], most: usize) -> Vec<&'a str> {
        (0..=self.roll(most)).map(|_| self.pick(among)).collect()
    }

    fn texts(&mut self, among: &[&str], most: usize) -> Vec<String> {
        strings(&self.some(among, most))
    }

    fn condition(&mut self, among: &[&str]) -> Condition {
        match self.roll(6) {
            0 => Condition::Present,
            1 => Condition::Absent,
            2 => {
                let these = if self.one_in(2) { Vec::new() } else { patterns(&self.some(among, 2)) };
                Condition::OneOfBut { these, but_not: patterns(&self.some(among, 2)) }
            }
            _ => Condition::OneOf(patterns(&self.some(among, 2))),
        }
    }

    fn when(&mut self) -> When {
        let mut when = When::default();
        if self.one_in(3) {
            when.methods = self.texts(&METHODS, 2);
        }
        if self.one_in(4) {
            when.hosts = self.texts(&HOST_PATTERNS, 2);
        }
        if self.one_in(2) {
            when.paths = self.texts(&PATH_PATTERNS, 3);
        }
        while self.one_in(4) {
            when.headers.push((self.pick(&["X-A", "x-b"]).to_owned(), self.condition(&VALUE_PATTERNS)));
        }
        while self.one_in(4) {
            let name = self.pick(&["user", "client"]);
            let among = if name == "client" { &LIST_PATTERNS } else { &VALUE_PATTERNS };
            when.identities.push((name.to_owned(), self.condition(among)));
        }
        if self.one_in(5) {
            let among = self.some(&NETWORKS, 2).iter().map(|network| network.parse().unwrap()).collect();
            when.network = Some(match self.roll(6) {
                0 => Networks::Internal,
                1 => Networks::NotInternal,
                2 => Networks::NotAmong(among),
                _ => Networks::Among(among),
            });
        }
        if self.one_in(5) {
            when.domains = self.texts(&DOMAINS, 2);
        }
        when.exact_entries = self.one_in(6);
        when
    }

    fn grant(&mut self) -> Grant {
        if self.one_in(6) { Grant::Unlimited } else { limited(5 + self.roll(20) as u64) }
    }

    fn rule(&mut self, at: usize) -> Rule {
        let mut key = if self.one_in(5) { Vec::new() } else { self.texts(&KEYS, 2) };
        key.sort();
        key.dedup();
        if self.one_in(8) {
            return Rule { when: self.when(), allowance: Allowance::Deny, ..rule(&format!("r{at}"), &[]) };
        }
        let mut rule = Rule { when: self.when(), key, ..rule(&format!("r{at}"), &[]) };
        if self.one_in(3) {
            let tiers = TIERS.iter().filter(|tier| **tier == "free" || self.one_in(2)).copied().collect::<Vec<_>>();
            rule.allowance = Allowance::Tiers(tiers.into_iter().map(|tier| (tier.to_owned(), self.grant())).collect());
        }
        while !rule.key.is_empty() && self.one_in(3) {
            let pattern = |name: &String| {
                let among =
                    if name == "client" { LIST_PATTERNS } else { ["1", "1*", "*", "192.0.2.1", "/a/*", "key=1"] };
                TextPattern(self.pick(&among).to_owned())
            };
            let key: Vec<TextPattern> = rule.key.iter().map(pattern).collect();
            if rule.overrides.iter().all(|known| known.key != key) {
                let grant = limited(100 + rule.overrides.len() as u64);
                rule.overrides.push(Override { key, grant });
            }
        }
        rule.cost.max = 9;
        rule.cost.source = match self.roll(5) {
            0 => CostSource::Fixed(3),
            1 => CostSource::Header { name: "X-Cost".into(), default: 2 },
            2 => CostSource::Methods { costs: vec![("post".into(), 5), ("GET".into(), 3)], default: 1 },
            _ => CostSource::OfTheRequest,
        };
        rule
    }

    fn policy(&mut self, rules: usize) -> Policy {
        let mut policy = Policy {
            identities: vec![
                identity("client", IdentitySource::First(strings(&["key", "user"]))),
                identity("user", header("X-User")),
                identity("key", header("X-Key")),
            ],
            client_ip: ClientIp { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..ClientIp::default() },
            tier: Some(Tier { source: TierSource::Direct(header("X-Tier")), default: "free".into(), trusted: true }),
            rules: (0..rules).map(|at| self.rule(at)).collect(),
            ..Policy::default()
        };
        if self.one_in(4) {
            policy.deny = AccessList { client_ip: vec![self.pick(&NETWORKS).parse().unwrap()], identities: Vec::new() };
        }
        if self.one_in(4) {
            let meant = patterns(&self.some(&LIST_PATTERNS, 1));
            policy.allow = AccessList { client_ip: Vec::new(), identities: vec![("client".into(), meant)] };
        }
        policy
    }
}

struct Sent {
    peer: Option<IpAddr>,
    method: String,
    host: Option<String>,
    target: String,
    headers: Vec<(String, String)>,
    cost: u64,
    /// The domain, and the names of the entries.
    descriptor: Option<(String, Vec<String>)>,
}

impl Dice {
    fn request(&mut self) -> Sent {
        let mut headers = Vec::new();
        for name in ["x-a", "X-B", "x-user", "x-key"] {
            if self.one_in(2) {
                // A value after an empty line is unusable.
                headers.extend(self.one_in(6).then(|| (name.to_owned(), String::new())));
                headers.push((name.to_owned(), self.pick(&VALUES).to_owned()));
                headers.extend(self.one_in(6).then(|| (name.to_owned(), "more".to_owned())));
            }
        }
        for (name, among) in [
            ("X-Tier", &["pro", "gold", "king"][..]),
            ("X-Cost", &["4", "0", "-1", "77"]),
            ("X-Forwarded-For", &FORWARDED),
        ] {
            if self.one_in(2) {
                headers.push((name.to_owned(), self.pick(among).to_owned()));
            }
        }
        Sent {
            peer: (!self.one_in(8)).then(|| self.pick(&PEERS).parse().unwrap()),
            method: self.pick(&METHODS).to_owned(),
            host: (!self.one_in(4)).then(|| self.pick(&HOSTS).to_owned()),
            target: if self.one_in(10) { String::new() } else { self.pick(&PATHS).to_owned() },
            headers,
            cost: self.roll(3) as u64,
            descriptor: (!self.one_in(3)).then(|| (self.pick(&DOMAINS).to_owned(), self.texts(&ENTRIES, 3))),
        }
    }
}

/// The charges: for each, the rule, the key, the quota and the cost.
type Charges = Vec<(u32, String, Quota, u64)>;

#[derive(Clone)]
struct Model<'a> {
    policy: &'a Policy,
    sent: &'a Sent,
    /// The reading of the path, and whether it ends in a slash.
    path: Option<(String, bool)>,
}

impl Model<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.sent.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a header. An unusable value is counted under the address.
    fn value(&self, name: &str) -> Option<String> {
        let first = self.header(name)?;
        if !first.is_empty() {
            return Some(first.to_owned());
        }
        let address = self.client().map_or_else(String::new, |client| key_text(embedded_v4(client).unwrap_or(client)));
        self.sent.descriptor.is_none().then(|| format!("{UNUSABLE}{address}"))
    }

    /// Returns the request for each reading of its path: resolved, decoded, as it was sent.
    fn readings(&self) -> Vec<Model<'_>> {
        let mut sent = self.sent.target.split('?').next().unwrap().to_owned();
        if sent.is_empty() {
            return vec![self.clone()];
        }
        if !sent.starts_with('/') {
            sent.insert(0, '/');
        }
        let decoded = sent.replace("%61", "a");
        let mut kept: Vec<&str> = Vec::new();
        for segment in decoded.split('/') {
            match segment {
                "" | "." => {}
                ".." => drop(kept.pop()),
                _ => kept.push(segment),
            }
        }
        let slash = if decoded.ends_with('/') && !kept.is_empty() { "/" } else { "" };
        let mut readings: Vec<(String, bool)> = Vec::new();
        for text in [format!("/{}{slash}", kept.join("/")), decoded.clone(), sent] {
            let is_longer = text.len() > 1 && text.ends_with('/');
            let reading = (text[..text.len() - usize::from(is_longer)].to_owned(), text.ends_with('/'));
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
        readings.into_iter().map(|path| Model { path: Some(path), ..self.clone() }).collect()
    }

    fn client(&self) -> Option<IpAddr> {
        let internal = |address: IpAddr| matches!(address, IpAddr::V4(address) if address.octets()[0] == 10);
        let mut client = self.sent.peer?.to_canonical();
        let list = self.header("x-forwarded-for").unwrap_or_default();
        for entry in list.split(", ").collect::<Vec<_>>().into_iter().rev() {
            match entry.parse() {
                Ok(address) if internal(client) => client = address,
                _ => break,
            }
        }
        Some(client)
    }

    /// Returns the client's address, and the IPv4 address that it embeds.
    fn addresses(&self) -> Vec<IpAddr> {
        self.client().into_iter().flat_map(|client| [Some(client), embedded_v4(client)]).flatten().collect()
    }

    /// Returns the value of an identity, and the name of the identity under which it is found.
    fn identity(&self, name: &str, route: Option<&str>) -> Option<(String, String)> {
        let named = |value: Option<&str>| value.map(|value| (name.to_owned(), value.to_owned()));
        match name {
            "user" => named(self.value("x-user").as_deref()),
            "key" => named(self.value("x-key").as_deref()),
            "client" => self.identity("key", None).or_else(|| self.identity("user", None)),
            "client_ip" => {
                named(self.client().map(|client| key_text(embedded_v4(client).unwrap_or(client))).as_deref())
            }
            "method" => named(Some(&self.sent.method)),
            "path" => named(self.path.as_ref().map(|(path, _)| path.as_str())),
            "route" => named(route),
            "tier" => named(Some(&self.tier())),
            _ => unreachable!("{name}"),
        }
    }

    fn tier(&self) -> String {
        let named = |tier: &str| {
            let tiers = self.policy.rules.iter().filter_map(|rule| match &rule.allowance {
                Allowance::Tiers(tiers) => Some(tiers),
                Allowance::Same(_) | Allowance::Deny => None,
            });
            tiers.flatten().any(|(name, _)| name == tier)
        };
        self.header("x-tier").filter(|tier| named(tier)).unwrap_or("free").to_owned()
    }

    /// Returns the most specific of these patterns that the path matches.
    fn route<'p>(&self, among: impl Iterator<Item = &'p String>) -> Option<&'p str> {
        let (path, slash) = self.path.as_ref()?;
        let mut matching: Vec<&str> =
            among.map(String::as_str).filter(|pattern| path_matches(pattern, path, *slash)).collect();
        // The name of a parameter is as specific as a star.
        let starred = |pattern: &str| pattern.replace("{name}", "*").replace(":first", "*");
        let rank = |pattern: &&str| {
            let starred = starred(pattern);
            (starred.contains('*'), std::cmp::Reverse(starred.len()), pattern.ends_with("/*"), pattern.to_string())
        };
        matching.sort_by_key(rank);
        matching.first().copied()
    }

    fn pattern_matches(&self, pattern: &TextPattern, (name, value): &(String, String)) -> bool {
        match pattern.0.split_once('=') {
            Some((only, text)) => name == only && star(text, value),
            None => star(&pattern.0, value),
        }
    }

    fn holds(&self, condition: &Condition, value: Option<&(String, String)>, is_list: bool) -> bool {
        if value.is_some_and(|(_, value)| value.starts_with(UNUSABLE)) {
            // It counts both as present and as absent, but equals no particular value.
            return match condition {
                Condition::Present | Condition::Absent => true,
                Condition::OneOf(_) => false,
                Condition::OneOfBut { these, .. } => these.is_empty(),
            };
        }
        match condition {
            Condition::Present => value.is_some(),
            Condition::Absent => value.is_none(),
            Condition::OneOf(among) => value.is_some_and(|value| self.is_among(among, value, is_list)),
            Condition::OneOfBut { these, but_not } => value.is_some_and(|value| {
                (these.is_empty() || self.is_among(these, value, is_list)) && !self.is_among(but_not, value, is_list)
            }),
        }
    }

    fn is_among(&self, among: &[TextPattern], value: &(String, String), is_list: bool) -> bool {
        among
            .iter()
            .any(|pattern| if is_list { self.pattern_matches(pattern, value) } else { star(&pattern.0, &value.1) })
    }

    /// Whether the descriptor is of the domain, and its entries are exactly those that the rule names.
    fn is_described(&self, rule: &Rule) -> bool {
        let when = &rule.when;
        let descriptor = self.sent.descriptor.as_ref();
        let domain =
            when.domains.is_empty() || descriptor.is_some_and(|(domain, _)| when.domains.iter().any(|d| d == domain));
        let mut named: Vec<&str> = rule.key.iter().map(String::as_str).collect();
        named.extend(when.headers.iter().chain(&when.identities).map(|(name, _)| name.as_str()));
        named.extend((!when.methods.is_empty()).then_some("method"));
        named.extend((!when.hosts.is_empty()).then_some("host"));
        named.extend((!when.paths.is_empty()).then_some("path"));
        named.extend(when.network.is_some().then_some("client_ip"));
        let mut named: Vec<&str> = named.into_iter().map(canonical_name).collect();
        named.sort_unstable();
        named.dedup();
        let entries = descriptor.is_some_and(|(_, entries)| {
            let mut entries: Vec<&str> = entries.iter().map(|entry| canonical_name(entry)).collect();
            entries.sort_unstable();
            entries == named
        });
        domain && (entries || !when.exact_entries)
    }

    fn conditions_hold(&self, when: &When) -> bool {
        let names_method = |method: &str| when.methods.iter().any(|asked| asked == method);
        let method =
            when.methods.is_empty() || names_method(&self.sent.method) || (self.is_like_get() && names_method("GET"));
        let host = when.hosts.is_empty()
            || self.sent.host.as_ref().is_some_and(|host| when.hosts.iter().any(|pattern| star(pattern, host)));
        let path = when.paths.is_empty() || self.route(when.paths.iter()).is_some();
        let headers = when.headers.iter().all(|(name, condition)| {
            let value = self.value(name).map(|value| (String::new(), value));
            self.holds(condition, value.as_ref(), false)
        });
        let identities = when
            .identities
            .iter()
            .all(|(name, condition)| self.holds(condition, self.identity(name, None).as_ref(), name == "client"));
        let network = match &when.network {
            None => true,
            Some(Networks::Internal) => self.is_internal(),
            Some(Networks::NotInternal) => !self.is_strictly_internal(),
            Some(Networks::Among(networks)) => self.is_from(networks),
            Some(Networks::NotAmong(networks)) => !self.is_strictly_from(networks),
        };
        method && host && path && headers && identities && network
    }

    fn is_internal(&self) -> bool {
        self.addresses().iter().any(|client| client.to_string().starts_with("10."))
    }

    fn is_from(&self, networks: &[IpNet]) -> bool {
        self.addresses().iter().any(|client| networks.iter().any(|network| network.contains(client)))
    }

    /// Whether both the address as it was sent and the one that it embeds are internal.
    fn is_strictly_internal(&self) -> bool {
        let addresses = self.addresses();
        !addresses.is_empty() && addresses.iter().all(|client| client.to_string().starts_with("10."))
    }

    fn is_strictly_from(&self, networks: &[IpNet]) -> bool {
        let addresses = self.addresses();
        let is_in = |client: &IpAddr| networks.iter().any(|network| network.contains(client));
        !addresses.is_empty() && addresses.iter().all(is_in)
    }

    fn grant<'p>(&self, rule: &'p Rule, parts: &[(String, String)]) -> &'p Grant {
        // An override matches the address as it was sent; the embedded one only if it grants no more than the rule.
        let sent = self.client().filter(|client| embedded_v4(*client).is_some()).map(|client| client.to_string());
        let matches = |given: &Override, sent: Option<&String>| {
            given.key.iter().zip(parts).zip(&rule.key).all(|((pattern, part), name)| match sent {
                _ if part.1.starts_with(UNUSABLE) => false,
                _ if name == "client" => self.pattern_matches(pattern, part),
                Some(sent) if name == "client_ip" => star(&pattern.0, sent),
                _ => star(&pattern.0, &part.1),
            })
        };
        let by_address = sent.as_ref().filter(|_| rule.key.iter().any(|name| name == "client_ip"));
        let is_unlimited = match &rule.allowance {
            Allowance::Same(grant) => *grant == Grant::Unlimited,
            Allowance::Tiers(tiers) => tiers.iter().all(|(_, grant)| *grant == Grant::Unlimited),
            Allowance::Deny => false,
        };
        let means_sent = rule.overrides.iter().any(|given| matches(given, by_address));
        let means =
            |given: &&Override| matches(given, by_address) || (!means_sent && is_unlimited && matches(given, None));
        let specificity = |given: &&Override| {
            let stars = given.key.iter().filter(|pattern| pattern.0.contains('*')).count();
            // The text before `=` is not part of the pattern for a list.
            let length = |(pattern, name): (&TextPattern, &String)| {
                if name == "client" { pattern.0.rsplit('=').next().unwrap().len() } else { pattern.0.len() }
            };
            (stars, std::cmp::Reverse(given.key.iter().zip(&rule.key).map(length).sum::<usize>()))
        };
        let mut matching: Vec<&Override> = rule.overrides.iter().filter(means).collect();
        matching.sort_by_key(specificity);
        if let Some(given) = matching.first() {
            return &given.grant;
        }
        match &rule.allowance {
            Allowance::Same(grant) => grant,
            Allowance::Tiers(tiers) => {
                let of = |tier: &str| tiers.iter().find(|(name, _)| name == tier).map(|(_, grant)| grant);
                of(&self.tier()).or_else(|| of("free")).unwrap()
            }
            Allowance::Deny => panic!("a rule that denies grants nothing"),
        }
    }

    fn cost(&self, source: &CostSource) -> u64 {
        match source {
            _ if self.sent.cost == 0 => 0,
            CostSource::OfTheRequest => self.sent.cost,
            CostSource::Fixed(cost) | CostSource::Estimate(cost) => *cost,
            CostSource::Header { default, .. } => match self.header("x-cost") {
                Some("4") => 4,
                Some("0") => 1,
                Some("77") => 9,
                _ => *default,
            },
            CostSource::Methods { .. } => match &*self.sent.method {
                "POST" => 5,
                "GET" => 3,
                _ if self.is_like_get() => 3,
                _ => 1,
            },
            CostSource::Paths { .. } => panic!("`cost_by_path.rs` has its own model"),
        }
    }

    /// Whether the method is treated like GET. Descriptors of gateways are compared literally.
    fn is_like_get(&self) -> bool {
        self.sent.method == "HEAD" && self.sent.descriptor.is_none()
    }

    /// Returns the charges of each rule in the first reading in which it charges anything.
    fn charges(&self) -> Charges {
        let readings: Vec<Charges> = self.readings().iter().map(Model::charges_read).collect();
        let mut charges = Vec::new();
        for (at, _) in (0..).zip(&self.policy.rules) {
            let of_rule = |read: &Charges| read.iter().filter(|charge| charge.0 == at).cloned().collect::<Charges>();
            charges.extend(readings.iter().map(of_rule).find(|charges| !charges.is_empty()).unwrap_or_default());
        }
        charges
    }

    fn charges_read(&self) -> Charges {
        let mut charges = Vec::new();
        let every_path = || self.policy.rules.iter().flat_map(|rule| &rule.when.paths);
        let meets = |rule: &Rule| self.conditions_hold(&rule.when) && self.is_described(rule);
        for (at, rule) in (0..).zip(&self.policy.rules).filter(|(_, rule)| meets(rule) && !rule.denies()) {
            let route =
                if rule.when.paths.is_empty() { self.route(every_path()) } else { self.route(rule.when.paths.iter()) };
            let Some(parts) = rule.key.iter().map(|name| self.identity(name, route)).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let part = |(name, (source, value)): (&String, &(String, String))| {
                let value = value.replace('{', "\\x7b").replace('}', "\\x7d");
                if name == "client" { format!("{source}={value}") } else { value }
            };
            let key = rule.key.iter().zip(&parts).map(part).collect::<Vec<_>>().join("|");
            if let Grant::Limited(quotas) = self.grant(rule, &parts) {
                charges.extend(quotas.iter().map(|quota| (at, key.clone(), *quota, self.cost(&rule.cost.source))));
            }
        }
        charges
    }

    /// Returns the rules that deny in any reading.
    fn denials(&self) -> Vec<u32> {
        let readings = self.readings();
        let applies =
            |rule: &Rule| readings.iter().any(|read| read.conditions_hold(&rule.when) && read.is_described(rule));
        let denies = |rule: &Rule| rule.denies() && applies(rule);
        (0..).zip(&self.policy.rules).filter(|(_, rule)| denies(rule)).map(|(at, _)| at).collect()
    }

    fn access(&self) -> Access {
        let is_denied = |client: &IpAddr| self.policy.deny.client_ip.iter().any(|network| network.contains(client));
        let denied = self.addresses().iter().any(is_denied);
        let value = self.identity("client", None);
        let allowed = |(_, among): &(String, Vec<TextPattern>)| {
            let value = value.as_ref().filter(|(_, value)| !value.starts_with(UNUSABLE));
            value.is_some_and(|value| among.iter().any(|pattern| self.pattern_matches(pattern, value)))
        };
        match (denied, self.policy.allow.identities.iter().any(allowed)) {
            (true, _) => Access::Denied,
            (false, true) => Access::Allowed,
            (false, false) => Access::Rules,
        }
    }
}

/// Returns the canonical name of an entry.
fn canonical_name(name: &str) -> &str {
    match name {
        "remote_address" => "client_ip",
        "X-User" | "x-user" => "user",
        "X-Key" | "x-key" => "key",
        name => name,
    }
}

fn embedded_v4(address: IpAddr) -> Option<IpAddr> {
    match address.to_string().as_str() {
        "64:ff9b::c000:201" => Some("192.0.2.1".parse().unwrap()),
        "2002:a00:1::1" => Some("10.0.0.1".parse().unwrap()),
        _ => None,
    }
}

fn key_text(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => ipnet::Ipv6Net::new(address, 64).unwrap().trunc().to_string(),
    }
}

/// Whether a path matches a pattern, segment by segment.
fn path_matches(pattern: &str, path: &str, slash: bool) -> bool {
    let split = |text: &str| match text {
        "/" => Vec::new(),
        text => text.split('/').skip(1).map(str::to_owned).collect::<Vec<_>>(),
    };
    let (pattern, path) = (split(pattern), split(path));
    let is_any = |segment: &str| matches!(segment, "*" | "{name}" | ":first");
    let alike = |pattern: &[String], path: &[String]| {
        let mut pairs = pattern.iter().zip(path);
        pairs.all(|(pattern, segment)| pattern == segment || (is_any(pattern) && !segment.is_empty()))
    };
    match pattern.split_last() {
        Some((last, above)) if last == "*" => {
            let deeper = path.len() > above.len() || (path.len() == above.len() && (slash || path.is_empty()));
            deeper && alike(above, &path)
        }
        _ => path.len() == pattern.len() && alike(&pattern, &path),
    }
}

/// Whether a text matches a pattern with stars, by trying all splits.
fn star(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => {
            text.starts_with(before) && (before.len()..=text.len()).any(|at| star(after, &text[at..]))
        }
    }
}

fn check(compiled: &CompiledPolicy, policy: &Policy, sent: &Sent) -> Result<usize, TestCaseError> {
    let entries: Vec<(&str, &str)> =
        sent.descriptor.iter().flat_map(|(_, names)| names).map(|name| (name.as_str(), "")).collect();
    let descriptor = sent.descriptor.as_ref().map(|(domain, _)| Descriptor { domain, entries: &entries });
    let request = Request {
        descriptor: descriptor.as_ref(),
        method: &sent.method,
        host: sent.host.as_deref(),
        target: &sent.target,
        headers: &sent.headers,
        cost: sent.cost,
        ..Request::from_peer(sent.peer)
    };
    let model = Model { policy, sent, path: None };
    let matched = compiled.match_request(&request);
    prop_assert_eq!(matched.access, model.access());
    let charges: Charges = matched
        .charges
        .iter()
        .map(|charge| {
            let key = String::from_utf8(matched.key(charge).to_vec()).unwrap();
            (charge.rule, key, compiled.quotas()[charge.quota as usize].quota, charge.cost)
        })
        .collect();
    let expected = if matched.access == Access::Rules { model.charges() } else { Vec::new() };
    prop_assert_eq!(&charges, &expected);
    let denials = if matched.access == Access::Rules { model.denials() } else { Vec::new() };
    prop_assert_eq!(matched.denials.as_slice(), denials.as_slice());
    assert_explained(compiled, &request, &charges)?;
    Ok(charges.len())
}

/// Asserts that the explanation has the same charges, and a reason for every rule that does not apply.
fn assert_explained(compiled: &CompiledPolicy, request: &Request<'_>, charges: &Charges) -> Result<(), TestCaseError> {
    let mut explained: Charges = Vec::new();
    for rule in compiled.explain(request).rules {
        match rule.outcome {
            RuleOutcome::Applies(applied) => {
                explained.extend(applied.quotas.iter().map(|quota| {
                    (rule.rule, applied.key.clone(), compiled.quotas()[*quota as usize].quota, applied.cost)
                }));
            }
            RuleOutcome::NotApplied { reason } => prop_assert_ne!(reason, "its conditions do not hold"),
        }
    }
    prop_assert_eq!(&explained, charges);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn compiled_policy_agrees_with_the_model(seed in any::<u64>(), rules in 1_usize..150) {
        let mut dice = Dice(seed);
        let policy = dice.policy(rules);
        let compiled = compile(policy.clone());
        for _ in 0..10 {
            check(&compiled, &policy, &dice.request())?;
        }
    }
}

/// Guards against a property that is vacuously true.
#[test]
fn generated_requests_match_many_rules_and_miss_many() {
    let (mut charges, mut rules) = (0, 0);
    for seed in 0..50 {
        let mut dice = Dice(seed);
        let policy = dice.policy(40);
        let compiled = compile(policy.clone());
        for _ in 0..10 {
            charges += check(&compiled, &policy, &dice.request()).unwrap();
            rules += 40;
        }
    }
    assert!(charges * 50 > rules && charges * 2 < rules, "{charges} charges of {rules} rules");
}
