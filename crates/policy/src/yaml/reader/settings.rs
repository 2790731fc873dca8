use super::Reader;
use super::members::Members;
use super::values::set;
use crate::model::{AccessList, FieldSet, Paths, Reset, ResponseFields, SecretKey, TrailingSlash};
use crate::yaml::shape;
use crate::yaml::tree::{Node, Value};

impl Reader<'_> {
    /// `deny` or `allow`.
    pub(super) fn access(&mut self, node: Option<&Node>) -> AccessList {
        let mut list = AccessList::default();
        let Some(members) = node.and_then(|node| self.members(node, &shape::ACCESS)) else { return list };
        set(&mut list.client_ip, members.get("client_ip").map(|node| self.networks(node)));
        for member in members.others() {
            list.identities.push((member.name.to_string(), self.patterns(&member.value)));
        }
        list
    }

    /// The key with which secret values are hashed.
    pub(super) fn secret_key(&mut self, top: &Members<'_>) -> Option<SecretKey> {
        let members = top.get("secrets").and_then(|node| self.members(node, &shape::SECRETS))?;
        self.key(&members).map(SecretKey)
    }

    pub(super) fn paths(&mut self, top: &Members<'_>) -> Paths {
        let mut paths = Paths::default();
        let Some(members) = top.get("paths").and_then(|node| self.members(node, &shape::PATHS)) else { return paths };
        let words = [("ignore", TrailingSlash::Ignore), ("keep", TrailingSlash::Keep)];
        set(&mut paths.trailing_slash, members.get("trailing_slash").and_then(|node| self.word(node, &words)));
        set(&mut paths.ignore_case, members.get("ignore_case").and_then(|node| self.bool(node)));
        paths
    }

    pub(super) fn response_fields(&mut self, top: &Members<'_>) -> ResponseFields {
        let mut fields = ResponseFields::default();
        set(&mut fields.sets, top.get("headers").map(|node| self.field_sets(node)));
        let words = [("epoch", Reset::Epoch), ("delta", Reset::Delta)];
        set(&mut fields.reset, top.get("reset").and_then(|node| self.word(node, &words)));
        set(&mut fields.jitter_ns, top.get("jitter").and_then(|node| self.duration(node)));
        fields
    }

    fn field_sets(&mut self, node: &Node) -> Vec<FieldSet> {
        let Value::List(items) = &node.value else {
            self.wrong_type(node, "a list of `ietf` and `x-ratelimit`, or [] for none");
            return Vec::new();
        };
        let words = [("ietf", FieldSet::Ietf), ("x-ratelimit", FieldSet::XRateLimit)];
        let asked: Vec<FieldSet> = items.iter().filter_map(|item| self.word(item, &words)).collect();
        // Asking twice is not asking for more.
        words.into_iter().map(|(_, set)| set).filter(|set| asked.contains(set)).collect()
    }
}
