pub(crate) fn run(_: &crate::args::ExplainArgs) -> anyhow::Result<crate::End> {
    todo!()
}
