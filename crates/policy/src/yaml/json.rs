//! JSON, as much of it as a schema needs.

/// A value to be written.
pub(super) enum Json {
    Text(String),
    /// Already JSON: numbers, `true`, defaults.
    Raw(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    pub(super) fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    pub(super) fn raw(value: &dyn ToString) -> Json {
        Json::Raw(value.to_string())
    }

    pub(super) fn map<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// With two spaces for each level, and a line end at the end.
    pub(super) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String, level: usize) {
        match self {
            Json::Text(text) => escape(text, out),
            Json::Raw(raw) => out.push_str(raw),
            Json::List(items) => between(out, level, ('[', ']'), items, |item, out| item.write(out, level + 1)),
            Json::Map(members) => between(out, level, ('{', '}'), members, |(name, value), out| {
                escape(name, out);
                out.push_str(": ");
                value.write(out, level + 1);
            }),
        }
    }
}

fn between<T>(out: &mut String, level: usize, ends: (char, char), items: &[T], write: impl Fn(&T, &mut String)) {
    out.push(ends.0);
    for (at, item) in items.iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(level + 1));
        write(item, out);
    }
    if !items.is_empty() {
        out.push('\n');
        out.push_str(&"  ".repeat(level));
    }
    out.push(ends.1);
}

/// The tables have no control characters in them.
fn escape(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}
