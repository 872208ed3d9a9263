"""The study's page: what was asked, what was found, what it cannot support; figures as files; a terminal summary."""
