//! Drawings as PNG, without fonts or libraries of the system.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use tiny_skia::{Color, Paint, PathBuilder, Pixmap, PixmapMut, Rect, Stroke, StrokeDash, Transform};

use super::drawing::{Anchor, Area, Colour, Drawing, HATCH_DISTANCE, HATCH_WIDTH, Shape, TextSize, lighter};

/// The pixels of a unit, so that the image is sharp on dense displays.
const SCALE: f32 = 2.0;

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];

/// The bit depth of 8 and the colour type RGBA, then compression, filter and interlacing of 0.
const PIXEL_FORMAT: [u8; 5] = [8, 6, 0, 0, 0];

pub(super) fn write(drawing: &Drawing) -> io::Result<Vec<u8>> {
    let (width, height) = ((drawing.width * SCALE) as u32, (drawing.height * SCALE) as u32);
    let Some(mut pixels) = Pixmap::new(width, height) else {
        return Err(io::Error::other("the drawing has no size"));
    };
    pixels.fill(Color::WHITE);
    for shape in &drawing.shapes {
        draw(&mut pixels.as_mut(), shape);
    }
    encode(&pixels)
}

fn draw(pixels: &mut PixmapMut<'_>, shape: &Shape) {
    let scaled = Transform::from_scale(SCALE, SCALE);
    match shape {
        Shape::Rectangle { area: Area { x, y, width, height }, fill } => {
            if let Some(rectangle) = Rect::from_xywh(*x, *y, *width, *height) {
                pixels.fill_rect(rectangle, &paint(*fill), scaled, None);
            }
        }
        Shape::Hatched { area, colour } => {
            draw(pixels, &Shape::Rectangle { area: *area, fill: lighter(*colour) });
            for points in hatch_lines(area) {
                draw_line(pixels, &points, *colour, &Stroke { width: HATCH_WIDTH, ..Stroke::default() });
            }
        }
        Shape::Line { points, colour, width, dash } => {
            let dash = StrokeDash::new(dash.to_vec(), 0.0);
            draw_line(pixels, points, *colour, &Stroke { width: *width, dash, ..Stroke::default() });
        }
        Shape::Text { x, y, text, size, anchor, colour } => {
            draw_text(pixels, (x * SCALE, y * SCALE), text, *size, *anchor, *colour);
        }
    }
}

fn draw_line(pixels: &mut PixmapMut<'_>, points: &[(f32, f32)], colour: Colour, stroke: &Stroke) {
    let mut path = PathBuilder::new();
    for (at, (x, y)) in points.iter().enumerate() {
        if at == 0 { path.move_to(*x, *y) } else { path.line_to(*x, *y) }
    }
    if let Some(path) = path.finish() {
        pixels.stroke_path(&path, &paint(colour), stroke, Transform::from_scale(SCALE, SCALE), None);
    }
}

/// Returns the lines that hatch an area.
fn hatch_lines(area: &Area) -> Vec<[(f32, f32); 2]> {
    let Area { x, y, width, height } = *area;
    let mut lines = Vec::new();
    let mut sum = ((x + y) / HATCH_DISTANCE).ceil() * HATCH_DISTANCE;
    while sum < x + width + y + height {
        let (from, to) = ((sum - y).min(x + width), (sum - y - height).max(x));
        if from > to {
            lines.push([(from, sum - from), (to, sum - to)]);
        }
        sum += HATCH_DISTANCE;
    }
    lines
}

fn paint([red, green, blue]: Colour) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

/// Draws a text whose baseline is at `y`, from glyphs that are already images.
fn draw_text(
    pixels: &mut PixmapMut<'_>,
    (x, y): (f32, f32),
    text: &str,
    size: TextSize,
    anchor: Anchor,
    colour: Colour,
) {
    let (height, weight) = match size {
        TextSize::Label => (RasterHeight::Size20, FontWeight::Regular),
        TextSize::Title => (RasterHeight::Size24, FontWeight::Bold),
    };
    let advance = get_raster_width(weight, height);
    let length = (advance * text.chars().count()) as f32;
    let left = match anchor {
        Anchor::Start => x,
        Anchor::Middle => x - length / 2.0,
        Anchor::End => x - length,
    };
    // The baseline of the images is at four fifths of their height.
    let top = y - height.val() as f32 * 0.8;
    for (at, letter) in text.chars().enumerate() {
        let glyph = get_raster(letter, weight, height).or_else(|| get_raster('?', weight, height));
        let Some(glyph) = glyph else { continue };
        for (row, line) in glyph.raster().iter().enumerate() {
            for (column, intensity) in line.iter().enumerate() {
                let (x, y) = (left as i64 + (at * advance + column) as i64, top as i64 + row as i64);
                blend(pixels, x, y, colour, *intensity);
            }
        }
    }
}

/// Mixes a colour into an opaque pixel.
fn blend(pixels: &mut PixmapMut<'_>, x: i64, y: i64, colour: Colour, intensity: u8) {
    let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
    if intensity == 0 || x >= pixels.width() || y >= pixels.height() {
        return;
    }
    let at = 4 * (y as usize * pixels.width() as usize + x as usize);
    let pixel = &mut pixels.data_mut()[at..at + 3];
    for (part, new) in pixel.iter_mut().zip(colour) {
        let mixed = u32::from(*part) * u32::from(255 - intensity) + u32::from(new) * u32::from(intensity);
        *part = (mixed / 255) as u8;
    }
}

fn encode(pixels: &Pixmap) -> io::Result<Vec<u8>> {
    let mut rows = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in pixels.data().chunks(4 * pixels.width() as usize) {
        // Each row begins with its filter, here none.
        rows.write_all(&[0])?;
        rows.write_all(row)?;
    }
    let mut png = SIGNATURE.to_vec();
    let header = [&pixels.width().to_be_bytes()[..], &pixels.height().to_be_bytes(), &PIXEL_FORMAT].concat();
    push_chunk(&mut png, *b"IHDR", &header);
    push_chunk(&mut png, *b"IDAT", &rows.finish()?);
    push_chunk(&mut png, *b"IEND", &[]);
    Ok(png)
}

fn push_chunk(png: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    let mut crc = Crc::new();
    crc.update(&name);
    crc.update(data);
    png.extend(crate::tally::to_u32(data.len()).to_be_bytes());
    png.extend(name);
    png.extend(data);
    png.extend(crc.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn png_has_the_size_and_the_chunks_of_an_image() {
        let mut drawing = Drawing::new(30.0, 20.0, String::new());
        drawing.text((1.0, 15.0), "text", Anchor::Start, [0, 0, 0]);
        let png = drawing.to_png().unwrap();
        assert_eq!(png[..8], SIGNATURE);
        assert_eq!(png[12..24], [&b"IHDR"[..], &60_u32.to_be_bytes(), &40_u32.to_be_bytes()].concat());
        assert!(png.ends_with(&[b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82]));
        assert!(png.len() > 100);
    }
}
