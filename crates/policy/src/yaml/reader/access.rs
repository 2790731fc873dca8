use super::Reader;
use crate::model::{AccessList, TextPattern};
use crate::yaml::shape;
use crate::yaml::tree::Node;

impl Reader<'_> {
    /// `deny` or `allow`.
    pub(super) fn access(&mut self, node: Option<&Node>) -> AccessList {
        let mut list = AccessList::default();
        let Some(members) = node.and_then(|node| self.members(node, &shape::ACCESS)) else { return list };
        if let Some(node) = members.get("client_ip") {
            list.client_ip = self.networks(node);
        }
        for member in members.others() {
            list.identities.push((member.name.to_string(), self.patterns(&member.value)));
        }
        list
    }

    /// One text with stars, or a list of them.
    pub(super) fn patterns(&mut self, node: &Node) -> Vec<TextPattern> {
        self.texts(node, "a text, in which `*` stands for anything").into_iter().map(TextPattern).collect()
    }
}
