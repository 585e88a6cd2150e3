"""Parts of tools/site: what is where (tree), sources as HTML (render), a page around it (page)."""
