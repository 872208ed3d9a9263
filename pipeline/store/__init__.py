"""The episode store: finished episodes by what determines them, shared by every study that names the same folder."""
