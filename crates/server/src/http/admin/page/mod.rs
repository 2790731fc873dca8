//! The page at `/`: static files, embedded in the program. They show what the admin API returns.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::response::IntoResponse;
use axum::routing::get;

/// Scripts and styles come from this listener only, and nothing on the page may parse text as markup.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the page.
#[derive(Clone, Copy)]
struct PageFile {
    path: &'static str,
    kind: PageFileKind,
    content: &'static str,
}

#[derive(Clone, Copy)]
enum PageFileKind {
    Html,
    Css,
    Script,
    Icon,
}

/// Declares files beside this one, at `/page/NAME`.
macro_rules! files {
    ($($kind:ident $name:literal),* $(,)?) => {
        [$(PageFile { path: concat!("/page/", $name), kind: PageFileKind::$kind, content: include_str!($name) }),*]
    };
}

const FILES: [PageFile; 23] = files![
    Icon "icon.svg",
    Css "style/base.css",
    Css "style/panels.css",
    Css "style/tokens.css",
    Script "script/api.js",
    Script "script/charts.js",
    Script "script/confirm.js",
    Script "script/dom.js",
    Script "script/format.js",
    Script "script/history.js",
    Script "script/live.js",
    Script "script/main.js",
    Script "script/session.js",
    Script "script/tabs.js",
    Script "script/theme.js",
    Script "script/panels/clients.js",
    Script "script/panels/drawing.js",
    Script "script/panels/explain.js",
    Script "script/panels/key_dialog.js",
    Script "script/panels/now.js",
    Script "script/panels/playground.js",
    Script "script/panels/policy.js",
    Script "script/panels/rules.js",
];

/// Returns the routes of the page.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let index = PageFile { path: "/", kind: PageFileKind::Html, content: include_str!("index.html") };
    FILES
        .into_iter()
        .chain([index])
        .fold(Router::new(), |router, file| router.route(file.path, get(move || std::future::ready(file.response()))))
}

impl PageFile {
    fn response(&self) -> impl IntoResponse + use<> {
        let headers: [(HeaderName, HeaderValue); 5] = [
            (CONTENT_TYPE, HeaderValue::from_static(self.kind.content_type())),
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY)),
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            // Another version of the program has other files under the same names.
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        (headers, self.content)
    }
}

impl PageFileKind {
    const fn content_type(self) -> &'static str {
        match self {
            PageFileKind::Html => "text/html; charset=utf-8",
            PageFileKind::Css => "text/css; charset=utf-8",
            PageFileKind::Script => "text/javascript; charset=utf-8",
            PageFileKind::Icon => "image/svg+xml",
        }
    }
}
