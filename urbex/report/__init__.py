"""Tables, figures and replays, made from the files a run left."""
