"""The steps of `build_stpls3d`: STPLS3D's scenes become a zero-shot benchmark."""
