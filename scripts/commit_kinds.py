"""Kinds of the commits since b00d0b8, for `scripts/lines-since b00d0b8 --commits`.

Commits that are not listed change fewer than twelve lines each of the files that are counted, or
are younger than the list.
"""

KINDS = {
    "the redesign of issue 17": """
        c1ef73fc 35019667 a1113970 1e975b41 fe99291c 5e8a8be9 3d34eac8 fb7f747a 5107ee9a 927671d8
        0138da98 40dc815a c5d4fc70 c4bbb7da 57b613e0 6fdedec3 e159b001 34ba420b b7673359 67a5a23b
        75eb1229 0615fab9 0b247915 c6145bfe 8bd8a696 3fffd0ab 6612d691 cf6ef17f 041f4db8 f16f44a0
    """,
    "one battery of tests, and other tests written once": """
        a8142245 2b631dde ededb66a 50b64c49 c1bbd3ad 52193235 3e2a15a7 da3618ba b17a6277 c69d09b5
        fd73fe55 f5197242 d37079da 250cef3f 6d73a4c9 49ba0e08 025cd680
    """,
    "the pass of decision 13": """
        e47ca034 5773141d 8bb9e963 0b6614e8 efbdddd7 2a625183 7144db30 7ef216a1 2b51c524 77b2df61
        67a3d6a7 92a29fb2 be38c924
    """,
    "words, names, and 100 columns": """
        fda0da72 a417500b 34f4ce62 b6120d47 f559f5c3 37e87d82 57a63ff9 181ee812 831d6975 dc316602
        2eaeaa71 559680f4 6bb6a17a ae4fde41 bbfe4367 dc59fe0b 69cc9b65 659c2955 849df945 b2a69da1
        2532500b 48409b06 6df726b5 39a381da 42b13cb1 3f8e18be fdaeb988 67893031 dc4018f9 edab38cd
    """,
    "hvd.reduce(), which issue 17 asks for": "0955249b d88e5eb3",
    "repairs": """
        9954285b 104d2e27 c8b1433c ce80383a 02f27f8c 33717427 2e433bf7 287b61cf 9f266f45 40f06217
        ce7a7d64 b8c0e94e 348aa95d ed343364 3d13dfa8 5a8baea4 7e4a29ea 44ba129d 46e7f2b0
    """,
    "tests of what had none": """
        2dc952fe 009da9bb 5f207ae0 e053906c a6919e8c 6faab736 ce0c2d46 b82ca140 38cf240e f76e6f3f
        69d52885 636519aa
    """,
    "what later features put into files that existed": """
        7f576a61 29655760 71dd0b51 545b572f 637e51c5 0e34fc33 f7f92928 b52e41f1 bb928754 c765547f
        15fd7a7e f12ce1b4 c59faad1 0a0142ad 05452914 2d44a5b1 be6ad2ed fd4d396b 5bece330 a2c7ce27
        d7c48232 b0660496 3dbc7290 0987139a 0cbc3ee0 ccc2abd8 7c852eac 4cb114d9 2257112c 580f7e34
        d5c6cdf7 6a6aa5bc e2671c38 09dfe3e7 c147910f da2a39f4 d68c9d9a fb60bf15 747b33f0 75cb9a01
        143ad0ff 7aea23db 0196af03 d61bf599 89311fae 13cb70aa ff27d6ce f67a308a 4be40443 481e39f2
        0592c5fa
    """,
}
