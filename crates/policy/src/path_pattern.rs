//! How a path pattern is written, for those who check, explain and match it.

/// Whether a segment of a pattern stands for any one segment by a name: `{id}` as in axum and FastAPI, or `:id` as in
/// Express.
pub(crate) fn is_parameter(segment: &str) -> bool {
    let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).or_else(|| segment.strip_prefix(':'));
    name.is_some_and(is_parameter_name)
}

fn is_parameter_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
