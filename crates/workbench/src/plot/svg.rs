//! Drawings as SVG.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::drawing::{Anchor, Area, Colour, Drawing, HATCH_DISTANCE, HATCH_WIDTH, Shape, TextSize, lighter};

pub(super) fn write(drawing: &Drawing) -> String {
    let Drawing { width, height, description, .. } = drawing;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"'Noto Sans Mono', 'DejaVu Sans Mono', Menlo, monospace\" \
         role=\"img\">\n<title>{}</title>\n",
        escaped(description)
    );
    push_patterns(&mut svg, &drawing.shapes);
    for shape in &drawing.shapes {
        push_shape(&mut svg, shape);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Defines a pattern for each colour of hatched areas.
fn push_patterns(svg: &mut String, shapes: &[Shape]) {
    let hatched = |shape: &Shape| match shape {
        Shape::Hatched { colour, .. } => Some(*colour),
        _ => None,
    };
    let colours: BTreeSet<Colour> = shapes.iter().filter_map(hatched).collect();
    for colour in colours {
        let (name, light, line) = (pattern(colour), hex(lighter(colour)), hex(colour));
        let (size, half) = (number(HATCH_DISTANCE), number(HATCH_DISTANCE / 2.0));
        let beyond = number(HATCH_DISTANCE * 1.5);
        // A diagonal, and the corners of its neighbours.
        let path = format!("M0,{size} L{size},0 M-{half},{half} L{half},-{half} M{half},{beyond} L{beyond},{half}");
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<pattern id=\"{name}\" width=\"{size}\" height=\"{size}\" patternUnits=\"userSpaceOnUse\">\
             <rect width=\"{size}\" height=\"{size}\" fill=\"{light}\"/>\
             <path d=\"{path}\" stroke=\"{line}\" stroke-width=\"{HATCH_WIDTH}\"/></pattern>"
        );
    }
}

/// The name of the pattern of a colour.
fn pattern(colour: Colour) -> String {
    format!("hatch-{}", &hex(colour)[1..])
}

fn push_rectangle(svg: &mut String, area: &Area, fill: &str) {
    let [x, y, width, height] = [area.x, area.y, area.width, area.height].map(number);
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>");
}

fn push_shape(svg: &mut String, shape: &Shape) {
    // Writing to a string cannot fail.
    let _ = match shape {
        Shape::Rectangle { area, fill } => return push_rectangle(svg, area, &hex(*fill)),
        Shape::Hatched { area, colour } => return push_rectangle(svg, area, &format!("url(#{})", pattern(*colour))),
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
    fn hatched_areas_of_a_colour_share_one_pattern() {
        let mut drawing = Drawing::new(40.0, 20.0, String::new());
        for x in [0.0, 20.0] {
            drawing.hatched(Area { x, y: 0.0, width: 10.0, height: 10.0 }, [1, 2, 255]);
        }
        let svg = drawing.to_svg();
        assert_eq!(svg.matches("<pattern id=\"hatch-0102ff\"").count(), 1, "{svg}");
        assert_eq!(svg.matches("fill=\"url(#hatch-0102ff)\"").count(), 2, "{svg}");
    }

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
