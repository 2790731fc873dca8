//! Which rules ask for a method.

use crate::compiled::identity::RequestValues;
use crate::compiled::matching::bits::RuleSet;

/// The rules of each method. There are so few that asking each is the fastest.
#[derive(Debug, Default)]
pub(crate) struct Methods(Vec<OfMethod>);

#[derive(Debug)]
struct OfMethod {
    name: Box<[u8]>,
    /// For requests.
    meant: RuleSet,
    /// For descriptors of gateways, whose entries are compared literally.
    literal: RuleSet,
}

/// The method to which rules for GET apply as well.
pub(crate) const HEAD: &[u8] = b"HEAD";
pub(crate) const GET: &[u8] = b"GET";

/// The methods that a rule means by one, in upper case: a rule for GET applies to HEAD as well, for which a server does
/// the same work.
pub(crate) fn meant(method: &str) -> impl Iterator<Item = Box<[u8]>> + use<> {
    let method: Box<[u8]> = method.to_ascii_uppercase().into_bytes().into();
    let head = (*method == *GET).then(|| HEAD.into());
    std::iter::once(method).chain(head)
}

impl Methods {
    pub(crate) fn insert(&mut self, method: &str, rule: u32) {
        for (at, name) in meant(method).enumerate() {
            let position = self.0.iter().position(|known| known.name == name).unwrap_or_else(|| {
                self.0.push(OfMethod { name, meant: RuleSet::default(), literal: RuleSet::default() });
                self.0.len() - 1
            });
            self.0[position].meant.insert(rule);
            if at == 0 {
                self.0[position].literal.insert(rule);
            }
        }
    }

    #[inline]
    pub(crate) fn find(&self, values: &RequestValues<'_>) -> Option<&RuleSet> {
        let found = self.0.iter().find(|known| *known.name == *values.method)?;
        Some(if values.request.descriptor.is_some() { &found.literal } else { &found.meant })
    }
}
