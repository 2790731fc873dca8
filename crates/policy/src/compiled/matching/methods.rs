//! The index of conditions on the method.

use crate::compiled::identity::RequestValues;
use crate::compiled::matching::bits::RuleSet;

/// The rules of each method. There are so few methods that a linear search is fastest.
#[derive(Debug, Default)]
pub(crate) struct Methods(Vec<MethodRules>);

#[derive(Debug)]
struct MethodRules {
    name: Box<[u8]>,
    /// The rules that match requests of this method.
    for_requests: RuleSet,
    /// The rules that match descriptors of gateways, whose entries are compared literally.
    for_descriptors: RuleSet,
}

/// The method that rules for GET match, too.
pub(crate) const HEAD: &[u8] = b"HEAD";
pub(crate) const GET: &[u8] = b"GET";

/// Returns the methods that a condition on one method matches, in upper case: a rule for GET matches HEAD, too, for
/// which a server does the same work.
pub(crate) fn matched_methods(method: &str) -> impl Iterator<Item = Box<[u8]>> + use<> {
    let method: Box<[u8]> = method.to_ascii_uppercase().into_bytes().into();
    let head = (*method == *GET).then(|| HEAD.into());
    std::iter::once(method).chain(head)
}

impl Methods {
    pub(crate) fn insert(&mut self, method: &str, rule: u32) {
        for (index, name) in matched_methods(method).enumerate() {
            let position = self.0.iter().position(|known| known.name == name).unwrap_or_else(|| {
                self.0.push(MethodRules {
                    name,
                    for_requests: RuleSet::default(),
                    for_descriptors: RuleSet::default(),
                });
                self.0.len() - 1
            });
            self.0[position].for_requests.insert(rule);
            if index == 0 {
                self.0[position].for_descriptors.insert(rule);
            }
        }
    }

    #[inline]
    pub(crate) fn find(&self, values: &RequestValues<'_>) -> Option<&RuleSet> {
        let found = self.0.iter().find(|known| *known.name == *values.method)?;
        Some(if values.request.descriptor.is_some() { &found.for_descriptors } else { &found.for_requests })
    }
}
