//! HTML of the page: one file that needs no other.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot::{Look, Svg, key};
use crate::table::Table;
use crate::views::Titled;

/// Plot with its legend and tables of the figures behind it.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) svg: Svg,
    pub(crate) legend: Vec<(Look, String)>,
    pub(crate) tables: Vec<Titled>,
}

/// Section of the page that the contents list.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) body: Markup,
}

/// Returns a table that scrolls if it is too wide.
pub(crate) fn table(table: &Table) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table.words[table.words] {
                thead { tr { @for name in &table.head { th scope="col" { (name) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns an element that can be opened.
pub(crate) fn details(summary: &str, inside: &Markup) -> Markup {
    html! { details { summary { (summary) } (inside) } }
}

/// Returns plots side by side, as many as there is room for.
pub(crate) fn figures(all: &[Figure]) -> anyhow::Result<Markup> {
    let all = all.iter().map(figure).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(html! { div.figures { @for one in all { (one) } } })
}

fn figure(figure: &Figure) -> anyhow::Result<Markup> {
    let keys = figure.legend.iter().map(|(look, name)| Ok((key(*look)?, name)));
    let keys = keys.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(html! {
        figure {
            h4 { (figure.title) }
            (PreEscaped(&figure.svg.0))
            @if !keys.is_empty() {
                ul.legend {
                    @for (Svg(svg), name) in keys {
                        li { span.key aria-hidden="true" { (PreEscaped(svg)) } (name) }
                    }
                }
            }
            @if !figure.caption.is_empty() { figcaption { (figure.caption) } }
            @for (title, of_title) in &figure.tables { (details(title, &table(of_title))) }
        }
    })
}

/// Returns the whole file.
pub(crate) fn page(title: &str, lead: &Markup, sections: &[Section]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header { h1 { (title) } (lead) }
                nav aria-label="Contents" {
                    ul { @for (number, section) in sections.iter().enumerate() {
                        li { a href={ "#part-" (number) } { (section.title) } }
                    } }
                }
                main {
                    @for (number, section) in sections.iter().enumerate() {
                        section id={ "part-" (number) } { h2 { (section.title) } (section.body) }
                    }
                }
            }
        }
    };
    page.into_string()
}
