"""What legacy scripts use and today's Python and NumPy no longer have, with what took its place.

Facts only; `legacy.py` puts the names back while a script runs, `scan.py` reports them, `fixes.py` rewrites them.
"""

from __future__ import annotations

# numpy.X -> what to write instead
NUMPY: dict[str, str] = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "object": "object",
    "str": "str",
    "complex": "complex",
    "long": "int",
    "unicode": "str",
    "bool8": "np.bool_",
    "object0": "np.object_",
    "float_": "np.float64",
    "complex_": "np.complex128",
    "singlecomplex": "np.complex64",
    "cfloat": "np.complex128",
    "longfloat": "np.longdouble",
    "longcomplex": "np.clongdouble",
    "clongfloat": "np.clongdouble",
    "unicode_": "np.str_",
    "string_": "np.bytes_",
    "NaN": "np.nan",
    "NAN": "np.nan",
    "Inf": "np.inf",
    "Infinity": "np.inf",
    "infty": "np.inf",
    "PINF": "np.inf",
    "NINF": "-np.inf",
    "PZERO": "0.0",
    "NZERO": "-0.0",
    "product": "np.prod",
    "cumproduct": "np.cumprod",
    "alltrue": "np.all",
    "sometrue": "np.any",
    "round_": "np.round",
    "in1d": "np.isin",
    "row_stack": "np.vstack",
    "trapz": "np.trapezoid",
    "asfarray": "np.asarray(…, dtype=float)",
    "asscalar": "….item()",
    "msort": "np.sort(…, axis=0)",
    "rank": "np.ndim",
    "cast": "np.asarray(…, dtype=…)",
    "find_common_type": "np.result_type",
    "issubsctype": "np.issubdtype",
    "mat": "np.asmatrix",
    "deprecate": "warnings.warn",
    "typeDict": "np.sctypeDict",
}

# Methods of arrays.
ARRAY_METHODS: dict[str, str] = {
    "tostring": "tobytes()",
    "itemset": "an assignment to a[…]",
    "newbyteorder": "a.view(a.dtype.newbyteorder(…))",
    "ptp": "np.ptp(a)",
}

# module.name -> what to write instead
NAMES: dict[str, str] = {
    **{
        f"collections.{name}": f"collections.abc.{name}"
        for name in (
            "Callable", "Container", "Generator", "Hashable", "ItemsView", "Iterable", "Iterator", "KeysView", "Mapping",
            "MappingView", "MutableMapping", "MutableSequence", "MutableSet", "Sequence", "Set", "Sized", "ValuesView",
        )
    },
    "inspect.getargspec": "inspect.getfullargspec",
    "time.clock": "time.perf_counter",
    "fractions.gcd": "math.gcd",
    "base64.encodestring": "base64.encodebytes",
    "base64.decodestring": "base64.decodebytes",
    "cgi.escape": "html.escape",
    "pipes.quote": "shlex.quote",
    "platform.linux_distribution": "the package distro",
    "platform.dist": "the package distro",
    "itertools.izip": "zip",
    "itertools.imap": "map",
    "itertools.ifilter": "filter",
    "itertools.izip_longest": "itertools.zip_longest",
    "itertools.ifilterfalse": "itertools.filterfalse",
    "os.getcwdu": "os.getcwd",
    "sys.maxint": "sys.maxsize",
    "string.letters": "string.ascii_letters",
    "string.lowercase": "string.ascii_lowercase",
    "string.uppercase": "string.ascii_uppercase",
    "string.maketrans": "str.maketrans",
    "sys.setdefaultencoding": "nothing: text is Unicode",
    "sys.exc_clear": "nothing: an exception ends with its handler",
    "string.joinfields": "a str's join",
    "string.atoi": "int",
    "string.atof": "float",
    **{
        f"string.{name}": f"a str's {name}"
        for name in (
            "center", "count", "expandtabs", "find", "join", "ljust", "lower", "lstrip", "replace", "rfind", "rjust",
            "rstrip", "split", "strip", "swapcase", "upper", "zfill",
        )
    },
    "types.StringType": "bytes",
    "types.UnicodeType": "str",
    "types.StringTypes": "str",
    "types.ListType": "list",
    "types.DictType": "dict",
    "types.TupleType": "tuple",
    "types.IntType": "int",
    "types.FloatType": "float",
    "types.NoneType": "type(None)",
    "logging._levelNames": "logging.getLevelNamesMapping()",
    "onnx.mapping": "onnx.helper.tensor_dtype_to_np_dtype, np_dtype_to_tensor_dtype",
}  # fmt: skip

# Modules that were renamed, by their old name.
RENAMED: dict[str, str] = {
    "ConfigParser": "configparser",
    "Queue": "queue",
    "SocketServer": "socketserver",
    "Tkinter": "tkinter",
    "__builtin__": "builtins",
    "cPickle": "pickle",
    "cStringIO": "io",
    "StringIO": "io",
    "copy_reg": "copyreg",
    "thread": "_thread",
    "dummy_thread": "_thread",
    "_dummy_thread": "_thread",
    "dummy_threading": "threading",
    "urlparse": "urllib.parse",
    "urllib2": "urllib.request",
    "httplib": "http.client",
    "cookielib": "http.cookiejar",
    "Cookie": "http.cookies",
    "HTMLParser": "html.parser",
    "BaseHTTPServer": "http.server",
    "SimpleHTTPServer": "http.server",
    "xmlrpclib": "xmlrpc.client",
    "SimpleXMLRPCServer": "xmlrpc.server",
    "anydbm": "dbm",
    "repr": "reprlib",
    "htmlentitydefs": "html.entities",
    "markupbase": "_markupbase",
    "robotparser": "urllib.robotparser",
    "whichdb": "dbm",
    "dumbdbm": "dbm.dumb",
    "gdbm": "dbm.gnu",
    "dbhash": "dbm",
    "DocXMLRPCServer": "xmlrpc.server",
    "CGIHTTPServer": "http.server",
    "UserString": "collections",
    "UserList": "collections",
    "UserDict": "collections",
    "_winreg": "winreg",
    "tkMessageBox": "tkinter.messagebox",
    "tkFileDialog": "tkinter.filedialog",
    "tkSimpleDialog": "tkinter.simpledialog",
    "tkColorChooser": "tkinter.colorchooser",
    "tkFont": "tkinter.font",
    "ScrolledText": "tkinter.scrolledtext",
    "ttk": "tkinter.ttk",
    "commands": "subprocess",
}

# Modules that are gone for good; the versions are those of Python that had them last.
REMOVED: dict[str, str] = {
    "imp": "importlib",
    "distutils": "setuptools, packaging, shutil.which",
    "asyncore": "asyncio",
    "asynchat": "asyncio",
    "smtpd": "the package aiosmtpd",
    "cgi": "urllib.parse, email.message",
    "cgitb": "traceback",
    "crypt": "the package passlib",
    "pipes": "subprocess, shlex",
    "imghdr": "the package filetype",
    "sndhdr": "the package filetype",
    "telnetlib": "the package telnetlib3",
    "sets": "set",
    "md5": "hashlib",
    "onnx.mapping": "onnx.helper.tensor_dtype_to_np_dtype, np_dtype_to_tensor_dtype",
    "sha": "hashlib",
    "popen2": "subprocess",
    "exceptions": "builtins",
    "new": "types",
    "numpy.core.umath_tests": "np.testing",
    "numpy.testing.decorators": "pytest",
}

# Packages that bridge Python 2 and 3.  `caffe2lite run` has what they are used for where they are not installed.
BRIDGES = ("six", "future", "past", "builtins")

# Names of Python 2's builtins, with what `caffe2lite port` writes in their place.
BUILTINS: dict[str, str] = {
    "xrange": "range",
    "unicode": "str",
    "basestring": "str",
    "long": "int",
    "unichr": "chr",
    "raw_input": "input",
    "reduce": "functools.reduce",
    "reload": "importlib.reload",
    "execfile": "exec(open(…).read())",
    "cmp": "(a > b) - (a < b)",
    "file": "open",
    "buffer": "memoryview",
    "intern": "sys.intern",
    "apply": "f(*args)",
    "coerce": "an explicit conversion",
}

# Methods of Python 2, with those of Python 3.
METHODS: dict[str, str] = {
    "iteritems": "items()",
    "iterkeys": "keys()",
    "itervalues": "values()",
    "viewitems": "items()",
    "viewkeys": "keys()",
    "viewvalues": "values()",
    "has_key": "the operator `in`",
    "next": "next(…)",
    "isAlive": "is_alive()",
    "getchildren": "list(…)",
}

# Methods that Python 2 called by itself.
SPECIAL: dict[str, str] = {
    "__div__": "__truediv__",
    "__rdiv__": "__rtruediv__",
    "__idiv__": "__itruediv__",
    "__cmp__": "__eq__ and __lt__, by functools.total_ordering",
    "__unicode__": "__str__",
    "__getslice__": "__getitem__, which gets a slice",
    "__setslice__": "__setitem__, which gets a slice",
}

# Codecs by which Python 2 made text of text.
CODECS = ("base64", "bz2", "hex", "rot13", "string_escape", "string-escape", "unicode_escape", "zlib")

# Methods of unittest.TestCase.
UNITTEST: dict[str, str] = {
    "assertEquals": "assertEqual",
    "assertNotEquals": "assertNotEqual",
    "assertAlmostEquals": "assertAlmostEqual",
    "assertNotAlmostEquals": "assertNotAlmostEqual",
    "assertItemsEqual": "assertCountEqual",
    "assertRegexpMatches": "assertRegex",
    "assertNotRegexpMatches": "assertNotRegex",
    "assertRaisesRegexp": "assertRaisesRegex",
    "assertDictContainsSubset": "assertLessEqual on items()",
    "assert_": "assertTrue",
    "failUnless": "assertTrue",
    "failIf": "assertFalse",
    "failUnlessEqual": "assertEqual",
}
