//! The survey as a page: a picture of all blocks, one square each.

use maud::{Markup, html};
use rampart_banks::{BlockObstacle, BlockSurvey, MemorySurvey};
use rampart_memory::Bytes;

use super::table::verdict;
use crate::output::html::{document, figure, tiles};

/// Squares in a row.
const ROW: usize = 48;

/// The side of a square, and the distance of two, in the drawing's units.
const SIDE: usize = 16;
const STEP: usize = 20;

/// The colours of what can move, what cannot, and what is free, as the style sheet knows them.
const COLOURS: [&str; 3] = ["#0072B2", "#D55E00", "#009E73"];

/// The page of a survey.
pub fn of_survey(survey: &MemorySurvey) -> String {
    let totals = &survey.totals;
    let removable = format!("are removable: {}", survey.banks);
    let numbers = [
        (totals.online.to_string(), "online"),
        (totals.offline.to_string(), "offline"),
        (totals.can_be_emptied.to_string(), "can be emptied now"),
        (totals.to_move.to_string(), "must move for that"),
        (format!("{} of {}", totals.removable_banks, totals.banks), &removable),
    ];
    let more = "; a frame around a block that can be emptied; pale: offline";
    let body = html! {
        h1 { "Memory blocks" }
        (tiles(numbers))
        (figure(&["movable", "unmovable", "free"], picture(survey).into_string(), more))
    };
    document("memory blocks", &body)
}

fn picture(survey: &MemorySurvey) -> Markup {
    let rows = survey.blocks.len().div_ceil(ROW).max(1);
    html! {
        svg viewBox={ "0 0 " (ROW * STEP) " " (rows * STEP) } role="img" {
            @for (place, block) in survey.blocks.iter().enumerate() {
                (square(block, survey.block.get(), (place % ROW * STEP + 2, place / ROW * STEP + 2)))
            }
        }
    }
}

/// A block: from below, what cannot move, what can, and what is free.
fn square(block: &BlockSurvey, size: u64, (x, y): (usize, usize)) -> Markup {
    let ((first, last), uses) = (block.addresses, block.uses);
    let title = format!(
        "block {}, {first:#012x}-{last:#012x}, {}; used {} (movable {}, unmovable {}), free {}; can be emptied: {}",
        block.number.0,
        block.state,
        uses.used(),
        uses.movable,
        uses.unmovable,
        uses.free,
        verdict(block)
    );
    let frame = if block.obstacle.is_none() { "1.6" } else { "0.3" };
    let opacity = if block.obstacle == Some(BlockObstacle::Offline) { "0.3" } else { "1" };
    html! {
        g {
            title { (title) }
            rect x=(x) y=(y) width=(SIDE) height=(SIDE) fill="none" stroke="#000000" stroke-width=(frame)
                stroke-opacity=(opacity) {}
            @for (colour, top, height) in parts(block, size, y + SIDE) {
                rect x=(x) y=(format!("{top:.2}")) width=(SIDE) height=(format!("{height:.2}")) fill=(colour) {}
            }
        }
    }
}

/// The parts of a block, from `bottom` up: each with its colour, its top and its height.
#[expect(clippy::cast_precision_loss, reason = "a drawing")]
fn parts(block: &BlockSurvey, size: u64, bottom: usize) -> Vec<(&'static str, f64, f64)> {
    let mut top = bottom as f64;
    let parts = [(1, block.uses.unmovable), (0, block.uses.movable), (2, block.uses.free)];
    let place = |(colour, bytes): (usize, Bytes)| {
        let height = SIDE as f64 * bytes.get() as f64 / size as f64;
        top -= height;
        (COLOURS[colour], top, height)
    };
    parts.into_iter().filter(|(_, bytes)| bytes.get() > 0).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_banks::BankLayout;
    use rampart_linux::{BlockZones, Census, FrameClass, HotplugState, MemoryBlock, MemoryBlocks};
    use rampart_memory::HotplugBlock;

    #[test]
    fn each_block_is_a_square_with_a_title_and_its_parts() {
        let block = |number, state| MemoryBlock {
            number: HotplugBlock(number),
            state,
            zones: BlockZones::In("Normal".to_owned()),
            node: None,
        };
        let blocks = vec![block(0, HotplugState::Online), block(1, HotplugState::Offline)];
        let blocks = MemoryBlocks { size: Bytes::from_mib(128), blocks };
        let half: Census = [(FrameClass::File, 16_384), (FrameClass::Free, 16_384)].into_iter().collect();
        let banks = BankLayout::requested(Bytes::from_mib(128));
        let page = of_survey(&MemorySurvey::new(&blocks, Some(&[half]), banks));
        assert_eq!((page.matches("<title>block").count(), page.matches("height=\"8.00\"").count()), (2, 2), "{page}");
        let title = "block 0, 0x0000000000-0x0007ffffff, online; used 64 MiB (movable 64 MiB, unmovable 0 B), free 64 MiB; \
                     can be emptied: yes";
        assert!(page.contains(title), "{page}");
        assert!(page.contains("2 of 2") && !page.contains("http"), "{page}");
    }
}
