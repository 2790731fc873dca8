//! The Rust code of the documentation, compiled and run as documentation tests.
//!
//! The published crates must not include files outside their packages, so the pages are here.

#[cfg(doctest)]
macro_rules! pages {
    ($($name:ident: $text:expr;)*) => {
        $(#[doc = $text] mod $name {})*
    };
}

#[cfg(doctest)]
pages! {
    clients: include_str!("../../../docs/clients.md");
    library: include_str!("../../../docs/guide/library.md");
    migrating_from_governor: include_str!("../../../docs/migrating/governor.md");
    library_reference: include_str!("../../../docs/rust.md");
    quick_start: include_str!("../../../docs/guide/quick-start.md");
}
