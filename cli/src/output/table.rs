//! Tables that fit the terminal.

use std::{env, io::IsTerminal as _};

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, presets};

use crate::ids::short;

/// Longest word of a column that is never cut, such as an id.
const WHOLE: usize = 40;

/// Titles of columns with ids that commands take in their short form.
const IDS: [&str; 4] = ["thread", "turn", "batch", "for example"];

/// Renders a table without borders. On a terminal, each row is one line that fits its width, or `COLUMNS`: long cells end with `…`, and ids
/// are short. Elsewhere, cells are whole.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let width = columns.filter(|width: &u16| 0 < *width);
    render(head, rows.into_iter().collect(), width, width.is_some() || std::io::stdout().is_terminal())
}

fn render(head: &[&str], mut rows: Vec<Vec<String>>, width: Option<u16>, fits: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.iter().map(|title| title.to_uppercase()));
    if fits {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        for row in &mut rows {
            let ids = row.iter_mut().zip(head).filter(|(_, title)| IDS.contains(title));
            ids.for_each(|(cell, _)| *cell = short(cell).to_owned());
        }
    }
    if let Some(width) = width {
        table.set_width(width);
    }
    let is_whole = |nth: usize| {
        let cells = || rows.iter().filter_map(|row| row.get(nth));
        cells().all(|cell| cell.chars().count() <= WHOLE && !cell.contains(char::is_whitespace))
            || cells().all(|cell| cell.chars().count() <= WHOLE / 3)
    };
    let whole: Vec<bool> = (0..head.len()).map(is_whole).collect();
    for cells in rows {
        let mut row = Row::from(cells);
        if fits {
            row.max_height(1);
        }
        table.add_row(row);
    }
    for (column, _) in table.column_iter_mut().zip(whole).filter(|(_, is_whole)| fits && *is_whole) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    table.trim_fmt()
}

#[test]
fn a_row_is_one_line_that_fits_and_ids_are_never_cut() {
    let id = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
    let rows = || {
        let row = |text: &str| vec![id.to_owned(), "3 h ago".to_owned(), text.to_owned()];
        vec![row("short"), row("a text that is far too long for a narrow terminal, and\nhas a second line")]
    };
    let fitted = render(&["webhook", "created", "input"], rows(), Some(80), true);
    let lines: Vec<&str> = fitted.lines().collect();
    assert_eq!(lines.len(), 3, "{fitted}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{fitted}");
    assert!(lines[1].contains(id) && lines[2].contains(id) && lines[2].trim_end().ends_with('…'), "{fitted}");
    let short = render(&["turn", "created", "input"], rows(), Some(80), true);
    assert!(short.contains("1a2b4c5d") && !short.contains(id), "{short}");
    let whole = render(&["turn", "created", "input"], rows(), None, false);
    assert!(whole.contains("has a second line") && whole.contains(id), "{whole}");
}
