//! Reads configurations of envoyproxy/ratelimit.

use tollgate::policy::{Document, DocumentPlace, DocumentValue, Mistake, Report};

use super::identity_names::identity_of;

/// The content of a file: the limits of a domain.
#[derive(Debug)]
pub(super) struct EnvoyConfiguration {
    pub(super) domain: String,
    pub(super) descriptors: Vec<EnvoyDescriptor>,
    /// The number of settings without effect on decisions: metrics, metadata and names of descriptors.
    pub(super) ignored: usize,
}

/// A node of the tree: it matches one entry of a request's descriptor.
#[derive(Debug)]
pub(super) struct EnvoyDescriptor {
    pub(super) key: String,
    pub(super) value: EnvoyValue,
    pub(super) limit: Option<EnvoyLimit>,
    pub(super) shadow: bool,
    /// Whether all values that match the wildcard share one counter.
    pub(super) shared: bool,
    pub(super) descriptors: Vec<EnvoyDescriptor>,
    place: DocumentPlace,
}

/// The values that a descriptor matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EnvoyValue {
    Exact(String),
    /// A pattern in which each `*` matches any text.
    Wildcard(String),
    Any,
}

#[derive(Debug)]
pub(super) struct EnvoyLimit {
    pub(super) amount: EnvoyAmount,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
}

/// The amount of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EnvoyAmount {
    Unlimited,
    /// A limit of 0.
    Nothing,
    /// A rate in the notation of policies.
    Rate(String),
}

const UNITS: [(&str, &str); 7] = [
    ("second", "s"),
    ("minute", "min"),
    ("hour", "h"),
    ("day", "day"),
    ("week", "week"),
    ("month", "month"),
    ("year", "year"),
];

/// The deepest nesting. Gateways send fewer entries.
const MAX_DEPTH: usize = 16;

impl EnvoyConfiguration {
    pub(super) fn read(text: &str, file: &str, domains: &[&str]) -> Result<EnvoyConfiguration, Report> {
        let document = Document::parse(text, file)?;
        let mut reader = ConfigurationReader { mistakes: Vec::new(), ignored: 0, keys: Vec::new() };
        let (mut domain, mut descriptors) = (None, Vec::new());
        for (name, place, value) in reader.members(document.root(), "a map with `domain` and `descriptors`") {
            match name {
                "domain" => domain = reader.text(value, "a domain"),
                "descriptors" => descriptors = reader.descriptors(value, &[]),
                "apiVersion" | "kind" => {
                    let message = "this is a Kubernetes object, not a configuration".to_owned();
                    reader.add_mistake(place, message, "import the text of an entry of its `data`");
                }
                _ => reader.add_unknown(name, place, "domain, descriptors"),
            }
            if let ("domain", Some(known)) = (name, domain.as_deref().filter(|known| domains.contains(known))) {
                reader.add_mistake(
                    value.place(),
                    format!("the domain `{known}` is already configured by another file"),
                    "",
                );
            }
        }
        if domain.is_none() && reader.mistakes.is_empty() {
            reader.add_mistake(document.root().place(), "the member `domain` is missing".to_owned(), "");
        }
        let mut orders = Vec::new();
        reader.check_orders(&descriptors, &mut Vec::new(), &mut orders);
        match domain {
            Some(domain) if reader.mistakes.is_empty() => {
                Ok(EnvoyConfiguration { domain, descriptors, ignored: reader.ignored })
            }
            _ => Err(document.report(reader.mistakes)),
        }
    }
}

struct ConfigurationReader {
    mistakes: Vec<Mistake>,
    ignored: usize,
    /// The keys read so far, without repetitions.
    keys: Vec<String>,
}

/// The keys of the entries on a path, in their order and sorted.
type EntryOrder = (Vec<String>, Vec<String>);

impl ConfigurationReader {
    fn descriptors(&mut self, value: DocumentValue<'_>, above: &[&str]) -> Vec<EnvoyDescriptor> {
        let Some(items) = value.items() else {
            if !value.is_nothing() {
                self.add_wrong_type(value, "a list of descriptors");
            }
            return Vec::new();
        };
        if above.len() >= MAX_DEPTH {
            self.add_mistake(value.place(), format!("descriptors are nested more than {MAX_DEPTH} deep"), "");
            return Vec::new();
        }
        let mut read: Vec<EnvoyDescriptor> = Vec::new();
        for item in items {
            let Some(descriptor) = self.descriptor(item, above) else { continue };
            if read.iter().any(|known| known.key == descriptor.key && known.value == descriptor.value) {
                let message = format!("two descriptors have the key `{}` and the same value", descriptor.key);
                self.add_mistake(descriptor.place, message, "remove one of the two");
            }
            read.push(descriptor);
        }
        read
    }

    fn descriptor(&mut self, value: DocumentValue<'_>, above: &[&str]) -> Option<EnvoyDescriptor> {
        const KNOWN: &str = "key, value, rate_limit, descriptors, shadow_mode, share_threshold, detailed_metric, \
                             value_to_metric, metadata, name";
        let mut read = EnvoyDescriptor {
            key: String::new(),
            value: EnvoyValue::Any,
            limit: None,
            shadow: false,
            shared: false,
            descriptors: Vec::new(),
            place: value.place(),
        };
        let members: Vec<_> = self.members(value, "a descriptor, which is a map with `key`").collect();
        if let Some((_, _, key)) = members.iter().find(|(name, _, _)| *name == "key") {
            read.key = self.text(*key, "a key")?;
            self.check_key(&read.key, key.place(), above);
        } else {
            self.add_mistake(value.place(), "the member `key` is missing".to_owned(), "");
            return None;
        }
        let path: Vec<&str> = above.iter().copied().chain([read.key.as_str()]).collect();
        let mut nested = Vec::new();
        for (name, place, member) in members {
            match name {
                "key" => {}
                "value" => read.value = ConfigurationReader::value(member),
                "rate_limit" => read.limit = self.limit(member),
                "descriptors" => nested = self.descriptors(member, &path),
                "shadow_mode" => read.shadow = self.bool(member),
                "share_threshold" => read.shared = self.bool(member),
                "detailed_metric" | "value_to_metric" => self.ignored += usize::from(self.bool(member)),
                // A name has an effect only in a rate_limit; metadata is passed to the gateway.
                "name" | "metadata" => self.ignored += 1,
                "quota_mode" => {
                    let message = "`quota_mode` has no equivalent in a policy".to_owned();
                    self.add_mistake(place, message, "use `shadow_mode`, which counts and never refuses");
                }
                _ => self.add_unknown(name, place, KNOWN),
            }
        }
        read.descriptors = nested;
        Some(read)
    }

    fn check_key(&mut self, key: &str, place: DocumentPlace, above: &[&str]) {
        if identity_of(key).is_none() {
            let message = format!("an entry with the name `{key}` cannot be an identity of a policy");
            self.add_mistake(place, message, "configure another descriptor_key in the gateway");
        }
        let is_same = |known: &&String| known.eq_ignore_ascii_case(key);
        match self.keys.iter().find(is_same) {
            Some(known) if known != key => {
                let message =
                    format!("the keys `{key}` and `{known}` differ only in case, which a policy does not distinguish");
                self.add_mistake(place, message, "configure another descriptor_key for one of them in the gateway");
            }
            Some(_) => {}
            None => self.keys.push(key.to_owned()),
        }
        if above.contains(&key) {
            let message = format!("the key `{key}` is nested in itself, and a policy cannot distinguish the two");
            self.add_mistake(place, message, "configure another descriptor_key for one of them in the gateway");
        }
    }

    fn value(value: DocumentValue<'_>) -> EnvoyValue {
        // envoyproxy/ratelimit also treats an empty value as none.
        let Some(text) = value.text().filter(|text| !text.is_empty()) else { return EnvoyValue::Any };
        if text.contains('*') { EnvoyValue::Wildcard(text.to_owned()) } else { EnvoyValue::Exact(text.to_owned()) }
    }

    fn limit(&mut self, value: DocumentValue<'_>) -> Option<EnvoyLimit> {
        const KNOWN: &str = "unit, unit_multiplier, requests_per_unit, unlimited, name, replaces";
        let mut limit = EnvoyLimit { amount: EnvoyAmount::Unlimited, name: None, replaces: Vec::new() };
        let (mut unit, mut multiplier, mut count, mut unlimited) = (None, 1, None, false);
        for (name, place, member) in self.members(value, "a rate_limit, which is a map with `unit`") {
            match name {
                "unit" => unit = Some(member),
                "unit_multiplier" => multiplier = self.number(member, 1)?,
                "requests_per_unit" => count = Some(member),
                "unlimited" => unlimited = self.bool(member),
                "name" => limit.name = self.text(member, "a name"),
                "replaces" => limit.replaces = self.replaces(member),
                _ => self.add_unknown(name, place, KNOWN),
            }
        }
        if unlimited {
            if let Some(unit) = unit {
                self.add_mistake(
                    unit.place(),
                    "an unlimited rate_limit has no unit".to_owned(),
                    "remove `unit` or `unlimited`",
                );
            }
            return Some(limit);
        }
        let word = unit.and_then(DocumentValue::text).map(str::to_ascii_lowercase);
        let known = UNITS.iter().find(|(name, _)| word.as_deref() == Some(*name));
        let Some((_, unit)) = known else {
            let place = unit.map_or(value.place(), DocumentValue::place);
            self.add_mistake(place, "expected a `unit`: second, minute, hour, day, week, month or year".to_owned(), "");
            return None;
        };
        // The default of requests_per_unit is 0.
        let amount = count.map_or(Some(0), |count| self.number(count, 0))?;
        let period = if multiplier == 1 { format!("/{unit}") } else { format!(" per {multiplier} {unit}") };
        limit.amount = if amount == 0 { EnvoyAmount::Nothing } else { EnvoyAmount::Rate(format!("{amount}{period}")) };
        Some(limit)
    }

    fn number(&mut self, value: DocumentValue<'_>, least: u32) -> Option<u32> {
        let number = value.text().and_then(|text| text.parse().ok()).filter(|number| *number >= least);
        if number.is_none() {
            self.add_mistake(value.place(), format!("expected a whole number from {least} to {}", u32::MAX), "");
        }
        number
    }

    fn replaces(&mut self, value: DocumentValue<'_>) -> Vec<String> {
        let Some(items) = value.items() else {
            self.add_wrong_type(value, "a list of maps with `name`");
            return Vec::new();
        };
        let mut names = Vec::new();
        for item in items {
            for (name, place, member) in self.members(item, "a map with `name`") {
                match name {
                    "name" => names.extend(self.text(member, "a name")),
                    _ => self.add_unknown(name, place, "name"),
                }
            }
        }
        names
    }

    /// Rejects limits that differ only in the order of their entries: envoyproxy/ratelimit distinguishes them, a policy
    /// does not.
    fn check_orders(&mut self, descriptors: &[EnvoyDescriptor], path: &mut Vec<String>, orders: &mut Vec<EntryOrder>) {
        for descriptor in descriptors {
            path.push(descriptor.key.clone());
            if descriptor.limit.is_some() {
                let mut sorted = path.clone();
                sorted.sort_unstable();
                if orders.iter().any(|(known, same)| *same == sorted && known != path) {
                    let message =
                        "the same entries have a limit in another order, and a policy does not distinguish orders";
                    self.add_mistake(descriptor.place, message.to_owned(), "send them in one order from the gateway");
                }
                orders.push((path.clone(), sorted));
            }
            self.check_orders(&descriptor.descriptors, path, orders);
            path.pop();
        }
    }

    fn members<'d>(
        &mut self,
        value: DocumentValue<'d>,
        expected: &str,
    ) -> impl Iterator<Item = (&'d str, DocumentPlace, DocumentValue<'d>)> + use<'d> {
        let members = value.members();
        if members.is_none() {
            self.add_wrong_type(value, expected);
        }
        members.into_iter().flatten()
    }

    fn text(&mut self, value: DocumentValue<'_>, expected: &str) -> Option<String> {
        let text = value.text().filter(|text| !text.is_empty());
        if text.is_none() {
            self.add_wrong_type(value, expected);
        }
        text.map(str::to_owned)
    }

    fn bool(&mut self, value: DocumentValue<'_>) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.add_wrong_type(value, "true or false");
            false
        })
    }

    fn add_unknown(&mut self, name: &str, place: DocumentPlace, known: &str) {
        self.add_mistake(place, format!("unknown key `{name}`"), &format!("known here: {known}"));
    }

    fn add_wrong_type(&mut self, value: DocumentValue<'_>, expected: &str) {
        self.add_mistake(value.place(), format!("expected {expected}, found {}", value.described()), "");
    }

    fn add_mistake(&mut self, place: DocumentPlace, message: String, hint: &str) {
        self.mistakes.push(Mistake { place, message, hint: hint.to_owned() });
    }
}
