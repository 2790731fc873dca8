use std::fmt::Write;

/// A JSON object, written member by member.
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Object {
        Object(String::from("{"))
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        quoted(&mut self.0, value);
    }

    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        let _ = write!(self.0, "{value}");
    }

    pub(super) fn texts<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a str>) {
        self.name(name);
        self.0.push('[');
        for (at, value) in values.enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            quoted(&mut self.0, value);
        }
        self.0.push(']');
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        quoted(&mut self.0, name);
        self.0.push(':');
    }
}

fn quoted(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                json.push('\\');
                json.push(c);
            }
            c if c < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
}
