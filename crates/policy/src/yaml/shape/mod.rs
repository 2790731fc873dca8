//! Which members a policy file may have: the one place that knows.
//!
//! The reader asks these tables which members exist, which are missing and
//! which word was meant; the JSON Schema is written from them.

mod identity;
mod rule;
mod settings;
mod top;

pub(super) use identity::{CLIENT_IP, IDENTITIES, IDENTITY, JWT, JWT_KEY, SECRETS, TIER};
pub(super) use rule::{
    CONDITION, COST_ESTIMATE, COST_HEADER, COST_METHOD, NETWORK, OVERRIDE, PERMITS, QUEUE, RULE, STEP_AFTER,
    STEP_FIRST, STEP_THEN, WHEN,
};
pub(super) use settings::{MAX_ENTRIES, MEMORY, PATHS, REDIS, STORE};
pub(super) use top::{ACCESS, POLICY};

/// A map with members of known names.
pub(super) struct Shape {
    /// What it is called in the schema and in messages.
    pub(super) name: &'static str,
    /// One sentence about it.
    pub(super) about: &'static str,
    /// The members with names of their own.
    pub(super) fields: &'static [Field],
    /// What members of any other name are, if there may be any.
    pub(super) others: Option<Kind>,
    /// Exactly one of these must be there.
    pub(super) one_of: &'static [&'static str],
    /// Members that people try, and why they are refused.
    pub(super) refused: &'static [(&'static str, &'static str)],
}

/// A member.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    pub(super) required: bool,
    /// What holds where it is absent, as JSON.
    pub(super) default: Option<&'static str>,
}

/// What a value may be.
pub(super) enum Kind {
    /// Any text that is not empty.
    Text,
    /// A text of this form.
    Pattern(&'static str),
    Bool,
    /// Only `true`: the member is there or it is not.
    True,
    Number {
        min: u64,
        max: u64,
    },
    Rate,
    Duration,
    /// An address or a network.
    Network,
    Words(&'static [&'static str]),
    /// A list, with at least so many items.
    List(&'static Kind, usize),
    /// One, or a list of them.
    OneOrMore(&'static Kind),
    /// Members of any name.
    Map(&'static Kind),
    Object(&'static Shape),
    AnyOf(&'static [Kind]),
}

pub(super) const fn shape(name: &'static str, about: &'static str, fields: &'static [Field]) -> Shape {
    Shape { name, about, fields, others: None, one_of: &[], refused: &[] }
}

const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, about, required: false, default: None }
}

const fn required(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, about, required: true, default: None }
}

const fn defaulted(name: &'static str, kind: Kind, about: &'static str, default: &'static str) -> Field {
    Field { name, kind, about, required: false, default: Some(default) }
}

impl Shape {
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_every_choice_exists() {
        for shape in [
            &POLICY,
            &ACCESS,
            &IDENTITIES,
            &CLIENT_IP,
            &TIER,
            &IDENTITY,
            &JWT,
            &JWT_KEY,
            &SECRETS,
            &RULE,
            &WHEN,
            &CONDITION,
            &NETWORK,
            &QUEUE,
            &PERMITS,
            &OVERRIDE,
            &COST_HEADER,
            &COST_METHOD,
            &COST_ESTIMATE,
            &STEP_FIRST,
            &STEP_THEN,
            &STEP_AFTER,
            &PATHS,
            &STORE,
            &MEMORY,
            &REDIS,
        ] {
            let mut names: Vec<&str> = shape.names().collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), shape.fields.len(), "{}", shape.name);
            assert!(shape.one_of.iter().all(|name| shape.field(name).is_some()), "{}", shape.name);
            assert!(shape.refused.iter().all(|(name, _)| shape.field(name).is_none()), "{}", shape.name);
        }
    }
}
