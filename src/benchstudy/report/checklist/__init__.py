"""The questions that each study is asked, one module for a group of them."""
