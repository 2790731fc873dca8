use super::Reader;
use super::members::Members;
use crate::model::{FieldSet, Paths, Reset, ResponseFields, SecretKey, TrailingSlash};
use crate::yaml::shape;
use crate::yaml::tree::{Node, Value};

impl Reader<'_> {
    /// The key with which secret values are hashed.
    pub(super) fn secret_key(&mut self, top: &Members<'_>) -> Option<SecretKey> {
        let members = top.get("secrets").and_then(|node| self.members(node, &shape::SECRETS))?;
        let from_variable = members.get("key_env").and_then(|node| self.secret_variable(node));
        from_variable.or_else(|| members.get("key_file").and_then(|node| self.secret_file(node))).map(SecretKey)
    }

    pub(super) fn paths(&mut self, top: &Members<'_>) -> Paths {
        let mut paths = Paths::default();
        let Some(members) = top.get("paths").and_then(|node| self.members(node, &shape::PATHS)) else { return paths };
        let words = [("ignore", TrailingSlash::Ignore), ("keep", TrailingSlash::Keep)];
        if let Some(slash) = members.get("trailing_slash").and_then(|node| self.word(node, &words)) {
            paths.trailing_slash = slash;
        }
        paths.ignore_case = members.get("ignore_case").and_then(|node| self.bool(node)).unwrap_or(false);
        paths
    }

    pub(super) fn response_fields(&mut self, top: &Members<'_>) -> ResponseFields {
        let mut fields = ResponseFields::default();
        if let Some(node) = top.get("headers") {
            fields.sets = self.field_sets(node);
        }
        let words = [("epoch", Reset::Epoch), ("delta", Reset::Delta)];
        if let Some(reset) = top.get("reset").and_then(|node| self.word(node, &words)) {
            fields.reset = reset;
        }
        fields.jitter_ns = top.get("jitter").and_then(|node| self.duration(node)).unwrap_or(0);
        fields
    }

    fn field_sets(&mut self, node: &Node) -> Vec<FieldSet> {
        let Value::List(items) = &node.value else {
            self.wrong_type(node, "a list of `ietf` and `x-ratelimit`, or [] for none");
            return Vec::new();
        };
        let words = [("ietf", FieldSet::Ietf), ("x-ratelimit", FieldSet::XRateLimit)];
        let mut sets: Vec<FieldSet> = items.iter().filter_map(|item| self.word(item, &words)).collect();
        // Asking twice is not asking for more.
        let all = sets.clone();
        sets = [FieldSet::Ietf, FieldSet::XRateLimit].into_iter().filter(|set| all.contains(set)).collect();
        sets
    }
}
