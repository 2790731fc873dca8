//! What a configuration of envoyproxy/ratelimit says.

use tollgate::policy::{Document, DocumentPlace, DocumentValue, Mistake, Report};

use super::identity_names::identity_of;

/// One file: the limits of a domain.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) domain: String,
    pub(super) descriptors: Vec<Descriptor>,
    /// How much of it decides nothing: it is about metrics, metadata or the name of a descriptor.
    pub(super) ignored: usize,
}

/// An entry that a request's descriptor may have, and what follows from it.
#[derive(Debug)]
pub(super) struct Descriptor {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) limit: Option<Limit>,
    pub(super) shadow: bool,
    /// Whether all values of a wildcard are counted together.
    pub(super) shared: bool,
    pub(super) descriptors: Vec<Descriptor>,
    place: DocumentPlace,
}

/// Which values are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Exact(String),
    /// Everything that is so, where each star stands for anything.
    Wildcard(String),
    Any,
}

#[derive(Debug)]
pub(super) struct Limit {
    pub(super) amount: Amount,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
}

/// How much passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    Unlimited,
    /// It is 0 there.
    Nothing,
    /// As a policy writes it.
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

/// Deeper than any gateway sends, and than anybody should be made to read.
const MAX_DEPTH: usize = 16;

impl Configuration {
    pub(super) fn read(text: &str, file: &str, domains: &[&str]) -> Result<Configuration, Report> {
        let document = Document::parse(text, file)?;
        let mut reader = Reader { mistakes: Vec::new(), ignored: 0, keys: Vec::new() };
        let (mut domain, mut descriptors) = (None, Vec::new());
        for (name, place, value) in reader.members(document.root(), "a map with `domain` and `descriptors`") {
            match name {
                "domain" => domain = reader.text(value, "a domain"),
                "descriptors" => descriptors = reader.descriptors(value, &[]),
                "apiVersion" | "kind" => {
                    let message = "this is an object of Kubernetes, not a configuration".to_owned();
                    reader.wrong(place, message, "import the text that stands under a name in its `data`");
                }
                _ => reader.unknown(name, place, "domain, descriptors"),
            }
            if let ("domain", Some(known)) = (name, domain.as_deref().filter(|known| domains.contains(known))) {
                reader.wrong(value.place(), format!("the domain `{known}` was in another file already"), "");
            }
        }
        if domain.is_none() && reader.mistakes.is_empty() {
            reader.wrong(document.root().place(), "the member `domain` is missing".to_owned(), "");
        }
        let mut orders = Vec::new();
        reader.check_orders(&descriptors, &mut Vec::new(), &mut orders);
        match domain {
            Some(domain) if reader.mistakes.is_empty() => {
                Ok(Configuration { domain, descriptors, ignored: reader.ignored })
            }
            _ => Err(document.report(reader.mistakes)),
        }
    }
}

struct Reader {
    mistakes: Vec<Mistake>,
    ignored: usize,
    /// The keys so far, each once.
    keys: Vec<String>,
}

/// The names of entries as they are sent, and the same sorted.
type Order = (Vec<String>, Vec<String>);

impl Reader {
    fn descriptors(&mut self, value: DocumentValue<'_>, above: &[&str]) -> Vec<Descriptor> {
        let Some(items) = value.items() else {
            if !value.is_nothing() {
                self.wrong_type(value, "a list of descriptors");
            }
            return Vec::new();
        };
        if above.len() >= MAX_DEPTH {
            self.wrong(value.place(), format!("descriptors are nested more than {MAX_DEPTH} deep"), "");
            return Vec::new();
        }
        let mut read: Vec<Descriptor> = Vec::new();
        for item in items {
            let Some(descriptor) = self.descriptor(item, above) else { continue };
            if read.iter().any(|known| known.key == descriptor.key && known.value == descriptor.value) {
                let message = format!("there are two descriptors of the key `{}` with the same value", descriptor.key);
                self.wrong(descriptor.place, message, "keep one of the two");
            }
            read.push(descriptor);
        }
        read
    }

    fn descriptor(&mut self, value: DocumentValue<'_>, above: &[&str]) -> Option<Descriptor> {
        const KNOWN: &str = "key, value, rate_limit, descriptors, shadow_mode, share_threshold, detailed_metric, \
                             value_to_metric, metadata, name";
        let mut read = Descriptor {
            key: String::new(),
            value: Value::Any,
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
            self.wrong(value.place(), "the member `key` is missing".to_owned(), "");
            return None;
        }
        let path: Vec<&str> = above.iter().copied().chain([read.key.as_str()]).collect();
        let mut nested = Vec::new();
        for (name, place, member) in members {
            match name {
                "key" => {}
                "value" => read.value = Reader::value(member),
                "rate_limit" => read.limit = self.limit(member),
                "descriptors" => nested = self.descriptors(member, &path),
                "shadow_mode" => read.shadow = self.bool(member),
                "share_threshold" => read.shared = self.bool(member),
                "detailed_metric" | "value_to_metric" => self.ignored += usize::from(self.bool(member)),
                // There a name counts only in a rate_limit; metadata are passed on to the gateway.
                "name" | "metadata" => self.ignored += 1,
                "quota_mode" => {
                    let message = "`quota_mode` has no counterpart in a policy".to_owned();
                    self.wrong(place, message, "`shadow_mode` counts and never refuses");
                }
                _ => self.unknown(name, place, KNOWN),
            }
        }
        read.descriptors = nested;
        Some(read)
    }

    fn check_key(&mut self, key: &str, place: DocumentPlace, above: &[&str]) {
        if identity_of(key).is_none() {
            let message = format!("an entry of the name `{key}` cannot be an identity of a policy");
            self.wrong(place, message, "let the gateway send it under another descriptor_key");
        }
        let is_same = |known: &&String| known.eq_ignore_ascii_case(key);
        match self.keys.iter().find(is_same) {
            Some(known) if known != key => {
                let message =
                    format!("the key `{key}` is `{known}` but for its case, which a policy does not tell apart");
                self.wrong(place, message, "let the gateway send one of them under another descriptor_key");
            }
            Some(_) => {}
            None => self.keys.push(key.to_owned()),
        }
        if above.contains(&key) {
            let message = format!("the key `{key}` is nested in itself, and a policy could not tell the two apart");
            self.wrong(place, message, "let the gateway send one of them under another descriptor_key");
        }
    }

    fn value(value: DocumentValue<'_>) -> Value {
        // An empty value is as good as none there, too.
        let Some(text) = value.text().filter(|text| !text.is_empty()) else { return Value::Any };
        if text.contains('*') { Value::Wildcard(text.to_owned()) } else { Value::Exact(text.to_owned()) }
    }

    fn limit(&mut self, value: DocumentValue<'_>) -> Option<Limit> {
        const KNOWN: &str = "unit, unit_multiplier, requests_per_unit, unlimited, name, replaces";
        let mut limit = Limit { amount: Amount::Unlimited, name: None, replaces: Vec::new() };
        let (mut unit, mut multiplier, mut count, mut unlimited) = (None, 1, None, false);
        for (name, place, member) in self.members(value, "a rate_limit, which is a map with `unit`") {
            match name {
                "unit" => unit = Some(member),
                "unit_multiplier" => multiplier = self.number(member, 1)?,
                "requests_per_unit" => count = Some(member),
                "unlimited" => unlimited = self.bool(member),
                "name" => limit.name = self.text(member, "a name"),
                "replaces" => limit.replaces = self.replaces(member),
                _ => self.unknown(name, place, KNOWN),
            }
        }
        if unlimited {
            if let Some(unit) = unit {
                self.wrong(unit.place(), "what is unlimited has no unit".to_owned(), "leave out one of the two");
            }
            return Some(limit);
        }
        let word = unit.and_then(DocumentValue::text).map(str::to_ascii_lowercase);
        let known = UNITS.iter().find(|(name, _)| word.as_deref() == Some(*name));
        let Some((_, unit)) = known else {
            let place = unit.map_or(value.place(), DocumentValue::place);
            self.wrong(place, "expected a `unit`: second, minute, hour, day, week, month or year".to_owned(), "");
            return None;
        };
        // Without a number it is 0 there.
        let amount = count.map_or(Some(0), |count| self.number(count, 0))?;
        let period = if multiplier == 1 { format!("/{unit}") } else { format!(" per {multiplier} {unit}") };
        limit.amount = if amount == 0 { Amount::Nothing } else { Amount::Rate(format!("{amount}{period}")) };
        Some(limit)
    }

    fn number(&mut self, value: DocumentValue<'_>, least: u32) -> Option<u32> {
        let number = value.text().and_then(|text| text.parse().ok()).filter(|number| *number >= least);
        if number.is_none() {
            self.wrong(value.place(), format!("expected a whole number from {least} to {}", u32::MAX), "");
        }
        number
    }

    fn replaces(&mut self, value: DocumentValue<'_>) -> Vec<String> {
        let Some(items) = value.items() else {
            self.wrong_type(value, "a list of maps with `name`");
            return Vec::new();
        };
        let mut names = Vec::new();
        for item in items {
            for (name, place, member) in self.members(item, "a map with `name`") {
                match name {
                    "name" => names.extend(self.text(member, "a name")),
                    _ => self.unknown(name, place, "name"),
                }
            }
        }
        names
    }

    /// There the order of entries counts, here it does not: two limits that differ by it only cannot both be.
    fn check_orders(&mut self, descriptors: &[Descriptor], path: &mut Vec<String>, orders: &mut Vec<Order>) {
        for descriptor in descriptors {
            path.push(descriptor.key.clone());
            if descriptor.limit.is_some() {
                let mut sorted = path.clone();
                sorted.sort_unstable();
                if orders.iter().any(|(known, same)| *same == sorted && known != path) {
                    let message = "these entries have a limit in another order already, and a policy knows no order";
                    self.wrong(descriptor.place, message.to_owned(), "let the gateway send them in one order");
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
            self.wrong_type(value, expected);
        }
        members.into_iter().flatten()
    }

    fn text(&mut self, value: DocumentValue<'_>, expected: &str) -> Option<String> {
        let text = value.text().filter(|text| !text.is_empty());
        if text.is_none() {
            self.wrong_type(value, expected);
        }
        text.map(str::to_owned)
    }

    fn bool(&mut self, value: DocumentValue<'_>) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.wrong_type(value, "true or false");
            false
        })
    }

    fn unknown(&mut self, name: &str, place: DocumentPlace, known: &str) {
        self.wrong(place, format!("unknown key `{name}`"), &format!("known here: {known}"));
    }

    fn wrong_type(&mut self, value: DocumentValue<'_>, expected: &str) {
        self.wrong(value.place(), format!("expected {expected}, found {}", value.described()), "");
    }

    fn wrong(&mut self, place: DocumentPlace, message: String, hint: &str) {
        self.mistakes.push(Mistake { place, message, hint: hint.to_owned() });
    }
}
