//! Which rules ask for a method.

use crate::compiled::identity::Look;
use crate::compiled::matching::bits::RuleSet;

/// The rules of each method. There are so few that asking each is the fastest.
#[derive(Debug, Default)]
pub(in crate::compiled) struct Methods {
    /// For requests: a rule for GET applies to HEAD as well, for which a server does the same work.
    meant: Vec<(Vec<u8>, RuleSet)>,
    /// For descriptors of gateways, whose entries are compared literally.
    literal: Vec<(Vec<u8>, RuleSet)>,
}

/// The method to which rules for GET apply as well.
pub(in crate::compiled) const HEAD: &[u8] = b"HEAD";
pub(in crate::compiled) const GET: &[u8] = b"GET";

impl Methods {
    pub(in crate::compiled) fn insert(&mut self, method: &str, rule: u32) {
        let method = method.to_ascii_uppercase().into_bytes();
        insert(&mut self.literal, &method, rule);
        insert(&mut self.meant, &method, rule);
        if method == GET {
            insert(&mut self.meant, HEAD, rule);
        }
    }

    #[inline]
    pub(in crate::compiled) fn find(&self, look: &Look<'_>) -> Option<&RuleSet> {
        let among = if look.request.descriptor.is_some() { &self.literal } else { &self.meant };
        among.iter().find(|(known, _)| *known == *look.seen.method).map(|(_, rules)| rules)
    }
}

fn insert(among: &mut Vec<(Vec<u8>, RuleSet)>, method: &[u8], rule: u32) {
    let at = among.iter().position(|(known, _)| known == method).unwrap_or_else(|| {
        among.push((method.to_vec(), RuleSet::default()));
        among.len() - 1
    });
    among[at].1.insert(rule);
}
