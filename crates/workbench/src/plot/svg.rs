//! Drawings as SVG.

use std::fmt::Write;

use super::drawing::{Anchor, Area, Colour, Drawing, Shape, TextSize};

pub(super) fn write(drawing: &Drawing) -> String {
    let Drawing { width, height, description, .. } = drawing;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"'Noto Sans Mono', 'DejaVu Sans Mono', Menlo, monospace\" \
         role=\"img\">\n<title>{}</title>\n",
        escaped(description)
    );
    for shape in &drawing.shapes {
        push_shape(&mut svg, shape);
    }
    svg.push_str("</svg>\n");
    svg
}

fn push_shape(svg: &mut String, shape: &Shape) {
    // Writing to a string cannot fail.
    let _ = match shape {
        Shape::Rectangle { area: Area { x, y, width, height }, fill } => writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
            number(*x),
            number(*y),
            number(*width),
            number(*height),
            hex(*fill)
        ),
        Shape::Line { points, colour, width, dash } => {
            let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
            let dash: Vec<String> = dash.iter().map(|length| number(*length)).collect();
            let dash =
                if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", dash.join(" ")) };
            writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dash}/>",
                points.join(" "),
                hex(*colour),
                number(*width)
            )
        }
        Shape::Text { x, y, text, size, anchor, colour } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let weight = if *size == TextSize::Title { " font-weight=\"bold\"" } else { "" };
            writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{weight} text-anchor=\"{anchor}\" fill=\"{}\">{}</text>",
                number(*x),
                number(*y),
                number(font_size(*size)),
                hex(*colour),
                escaped(text)
            )
        }
    };
}

/// The font size of a line's height.
fn font_size(size: TextSize) -> f32 {
    (size.height() * 0.9).round()
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// A coordinate with one decimal, which is a tenth of a pixel.
fn number(number: f32) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_coordinates_short() {
        let mut drawing = Drawing::new(10.0, 5.0, "a < b".to_owned());
        drawing.text((1.25, 2.0), "<&>", Anchor::End, [1, 2, 255]);
        let svg = drawing.to_svg();
        assert!(svg.contains("<title>a &lt; b</title>"), "{svg}");
        let text = "<text x=\"1.2\" y=\"2\" font-size=\"11\" text-anchor=\"end\" fill=\"#0102ff\">&lt;&amp;&gt;</text>";
        assert!(svg.contains(text), "{svg}");
    }
}
