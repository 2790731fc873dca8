//! A drawing: shapes at coordinates, with the origin at the top left. One unit is a pixel of an SVG.

use super::{png, svg};

/// A chart that can be written as SVG or PNG.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) shapes: Vec<Shape>,
    /// What the chart shows, for readers that do not see it.
    pub(super) description: String,
}

/// A colour as red, green and blue.
pub(super) type Colour = [u8; 3];

/// Colours that people with colour blindness distinguish (Okabe and Ito).
pub(super) const BLUE: Colour = [0x00, 0x72, 0xb2];
pub(super) const VERMILION: Colour = [0xd5, 0x5e, 0x00];
pub(super) const GREEN: Colour = [0x00, 0x9e, 0x73];
pub(super) const ORANGE: Colour = [0xe6, 0x9f, 0x00];
pub(super) const PURPLE: Colour = [0xcc, 0x79, 0xa7];
pub(super) const SKY: Colour = [0x56, 0xb4, 0xe9];
pub(super) const INK: Colour = [0x22, 0x22, 0x22];
pub(super) const GREY: Colour = [0x66, 0x66, 0x66];
pub(super) const GRID: Colour = [0xdd, 0xdd, 0xdd];
pub(super) const PAPER: Colour = [0xff, 0xff, 0xff];

/// A shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Rectangle {
        area: Area,
        fill: Colour,
    },
    /// A light area with diagonal lines: `x + y` is the same multiple of [`HATCH_DISTANCE`] everywhere on a line.
    Hatched {
        area: Area,
        colour: Colour,
    },
    Line {
        points: Vec<(f32, f32)>,
        colour: Colour,
        width: f32,
        dash: &'static [f32],
    },
    Text {
        x: f32,
        y: f32,
        text: String,
        size: TextSize,
        anchor: Anchor,
        colour: Colour,
    },
}

/// An area of a drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) width: f32,
    pub(super) height: f32,
}

/// The part of a text that is at its coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A size of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextSize {
    Label,
    Title,
}

impl TextSize {
    /// Returns the height of a line.
    pub(super) const fn height(self) -> f32 {
        match self {
            TextSize::Label => 12.0,
            TextSize::Title => 16.0,
        }
    }
}

/// The width of these lines.
pub(super) const HATCH_WIDTH: f32 = 1.2;

/// The horizontal distance of the lines that hatch an area.
pub(super) const HATCH_DISTANCE: f32 = 6.0;

impl Drawing {
    pub(super) fn new(width: f32, height: f32, description: String) -> Drawing {
        let mut drawing = Drawing { width, height, shapes: Vec::new(), description };
        drawing.rectangle(Area { x: 0.0, y: 0.0, width, height }, PAPER);
        drawing
    }

    /// Returns the drawing as SVG.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::write(self)
    }

    /// Returns the drawing as PNG, with two pixels for each unit.
    ///
    /// # Errors
    /// The image cannot be encoded.
    pub fn to_png(&self) -> std::io::Result<Vec<u8>> {
        png::write(self)
    }

    pub(super) fn rectangle(&mut self, area: Area, fill: Colour) {
        if area.width > 0.0 && area.height > 0.0 {
            self.shapes.push(Shape::Rectangle { area, fill });
        }
    }

    /// Fills an area with a light colour and diagonal lines, so that it is distinguished without its colour.
    pub(super) fn hatched(&mut self, area: Area, colour: Colour) {
        if area.width <= 0.0 || area.height <= 0.0 {
            return;
        }
        self.shapes.push(Shape::Hatched { area, colour });
        let Area { x, y, width, height } = area;
        let corners = vec![(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)];
        self.line(corners, colour, 1.0, &[]);
    }

    pub(super) fn line(&mut self, points: Vec<(f32, f32)>, colour: Colour, width: f32, dash: &'static [f32]) {
        self.shapes.push(Shape::Line { points, colour, width, dash });
    }

    pub(super) fn text(&mut self, (x, y): (f32, f32), text: impl Into<String>, anchor: Anchor, colour: Colour) {
        self.shapes.push(Shape::Text { x, y, text: text.into(), size: TextSize::Label, anchor, colour });
    }

    pub(super) fn title(&mut self, (x, y): (f32, f32), text: impl Into<String>) {
        let (size, anchor, colour) = (TextSize::Title, Anchor::Start, INK);
        self.shapes.push(Shape::Text { x, y, text: text.into(), size, anchor, colour });
    }
}

/// Returns a quarter of a colour on white.
pub(super) fn lighter(colour: Colour) -> Colour {
    colour.map(|part| 255 - (255 - part) / 4)
}
