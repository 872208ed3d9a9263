"""What people type beside the stages: how far a study is, what an episode was, whether this machine can run it."""
